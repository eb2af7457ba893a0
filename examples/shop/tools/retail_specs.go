package tools

import "mulligan/examples/shop/store"

// retailTools returns the tools of the store, by name.
func retailTools() []definition {
	return byName(append(append(retailReaders(), retailWriters()...), sharedTools(Retail)...))
}

func orderID() param {
	return param{"order_id", text("Id of the order. It starts with '#', for example '#W0000000'.")}
}

func methodID() param {
	return param{"payment_method_id", text(
		"Id of a payment method in the user's profile that pays or receives the difference, for example 'gift_card_0000000'.")}
}

func itemIDs(name, description string) param {
	return param{name, listOf(description+" An id may occur more than once.", typed("string"))}
}

func addressParams(first param) []param {
	return []param{
		first,
		{"address1", text("First line of the address, for example '123 Main St'.")},
		{"address2", text("Second line of the address, for example 'Apt 1', or an empty text.")},
		{"city", text("The city.")},
		{"state", text("The state, for example 'CA'.")},
		{"country", text("The country, for example 'USA'.")},
		{"zip", text("The postal code, for example '12345'.")},
	}
}

func retailReaders() []definition {
	userID := param{"user_id", text("Id of the user, for example 'sara_doe_496'.")}
	return []definition{{
		domain: Retail, name: "find_user_id_by_email", effect: ReadOnly,
		description: "Find the id of a user by e-mail address. Fails if there is no such user.",
		params:      []param{{"email", text("The e-mail address; upper and lower case are the same.")}},
		run:         findUserByEmail,
	}, {
		domain: Retail, name: "find_user_id_by_name_zip", effect: ReadOnly,
		description: "Find the id of a user by first name, last name and postal code, for users who cannot be found by e-mail.",
		params: []param{
			{"first_name", text("The first name, for example 'John'.")},
			{"last_name", text("The last name, for example 'Doe'.")},
			{"zip", text("The postal code, for example '12345'.")},
		},
		run: findUserByNameZip,
	}, {
		domain: Retail, name: "get_order_details", effect: ReadOnly,
		description: "Show an order: its items, status, address and payments.",
		params:      []param{orderID()},
		run:         show(store.RetailOrders, "order_id", "order not found"),
	}, {
		domain: Retail, name: "get_product_details", effect: ReadOnly,
		description: "Show a product with all its variants, their prices and whether they are available.",
		params:      []param{{"product_id", text("Id of the product, which is not the id of an item.")}},
		run:         show(store.RetailProducts, "product_id", "product not found"),
	}, {
		domain: Retail, name: "get_user_details", effect: ReadOnly,
		description: "Show a user's profile: address, payment methods and orders.",
		params:      []param{userID},
		run:         show(store.RetailUsers, "user_id", "user not found"),
	}, {
		domain: Retail, name: "list_all_product_types", effect: ReadOnly,
		description: "List the names of all products with their ids.",
		run:         listProducts,
	}}
}

func retailWriters() []definition {
	userID := param{"user_id", text("Id of the user whose default address changes.")}
	return []definition{{
		domain: Retail, name: "cancel_pending_order", effect: Unsafe,
		description: "Cancel an order that is still pending and refund what was paid. Ask the user to confirm first.",
		params: []param{orderID(), {"reason", oneOf("Why the order is cancelled.",
			"no longer needed", "ordered by mistake")}},
		run: cancelOrder,
	}, {
		domain: Retail, name: "exchange_delivered_order_items", effect: Unsafe,
		description: "Exchange items of a delivered order for other variants of the same products. Possible once per order; ask the user to confirm first.",
		params: []param{
			orderID(), itemIDs("item_ids", "Ids of the items to give back."),
			itemIDs("new_item_ids", "Ids of the items wanted instead, in the same order."), methodID(),
		},
		run: exchangeItems,
	}, {
		domain: Retail, name: "modify_pending_order_address", effect: Unsafe,
		description: "Change where a pending order is sent. Ask the user to confirm first.",
		params:      addressParams(orderID()),
		run:         modifyOrderAddress,
	}, {
		domain: Retail, name: "modify_pending_order_items", effect: Unsafe,
		description: "Replace items of a pending order by other variants of the same products. Possible once per order; ask the user to confirm first.",
		params: []param{
			orderID(), itemIDs("item_ids", "Ids of the items to replace."),
			itemIDs("new_item_ids", "Ids of the items wanted instead, in the same order."), methodID(),
		},
		run: modifyItems,
	}, {
		domain: Retail, name: "modify_pending_order_payment", effect: Unsafe,
		description: "Pay a pending order with another method and refund the first one. Ask the user to confirm first.",
		params:      []param{orderID(), methodID()},
		run:         modifyPayment,
	}, {
		domain: Retail, name: "modify_user_address", effect: Unsafe,
		description: "Change a user's default address. Ask the user to confirm first.",
		params:      addressParams(userID),
		run:         modifyUserAddress,
	}, {
		domain: Retail, name: "return_delivered_order_items", effect: Unsafe,
		description: "Ask for the return of items of a delivered order. Possible once per order; ask the user to confirm first.",
		params:      []param{orderID(), itemIDs("item_ids", "Ids of the items to return."), methodID()},
		run:         returnItems,
	}}
}
