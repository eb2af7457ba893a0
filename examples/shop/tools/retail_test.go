package tools_test

import (
	"testing"
)

func TestRetailLookups(t *testing.T) {
	shop := smallShop(t, nil)
	for _, c := range []struct{ tool, input, want string }{
		{"retail/find_user_id_by_email", `{"email":"CY.sample@Example.com"}`, "cy_sample_1003"},
		{"retail/find_user_id_by_email", `{"email":"nobody@example.com"}`, "Error: user not found"},
		{"retail/find_user_id_by_name_zip", `{"first_name":"DI","last_name":"sample","zip":"97475"}`, "di_sample_1004"},
		{"retail/find_user_id_by_name_zip", `{"first_name":"Di","last_name":"Sample","zip":97475}`, "Error: user not found"},
		{"retail/get_order_details", `{"order_id":"W1000001"}`, "Error: order not found"},
		{"retail/get_user_details", `{"user_id":"nobody"}`, "Error: user not found"},
		{"retail/get_product_details", `{"product_id":"3000000011"}`, "Error: product not found"},
		{"retail/list_all_product_types", `{}`, `{"Caf\u00e9 Press": "2000000003", "Desk Lamp": "2000000002", "Tea Mug": "2000000001"}`},
		{"retail/get_user_details", `{"user_id":"cy_sample_1003"}`, `{"name": {"first_name": "Cy", "last_name": "Sample"}, ` +
			`"address": {"address1": "3 Third Street", "address2": "Floor 3 \ud83d\uded7", "city": "S\u00e3o Paulo", "country": "Brazil", "state": "SP", "zip": "01000-000"}, ` +
			`"email": "Cy.Sample@example.com", "payment_methods": {"gift_card_1000005": {"source": "gift_card", "balance": 5, "id": "gift_card_1000005"}, ` +
			`"credit_card_1000006": {"source": "credit_card", "brand": "mastercard", "last_four": "0006", "id": "credit_card_1000006"}}, "orders": ["#W1000005"]}`},
	} {
		if got, _ := shop.Call("r", c.tool, []byte(c.input)); got != c.want {
			t.Errorf("%s(%s): got %s", c.tool, c.input, got)
		}
	}
}

func TestCancelRefundsGiftCard(t *testing.T) {
	shop := smallShop(t, nil)
	out := ok(t, shop, "r", "retail/cancel_pending_order", `{"order_id":"#W1000003","reason":"ordered by mistake"}`)
	expect(t, out, map[string]string{
		"status": `"cancelled"`, "cancel_reason": `"ordered by mistake"`,
		"payment_history.1": `{"transaction_type": "refund", "amount": 64.2, "payment_method_id": "gift_card_1000004"}`,
	})
	expect(t, ok(t, shop, "r", "retail/get_user_details", `{"user_id":"bo_sample_1002"}`), map[string]string{
		"payment_methods.gift_card_1000004.balance": `564.2`,
	})
	expect(t, ok(t, shop, "other", "retail/get_user_details", `{"user_id":"bo_sample_1002"}`), map[string]string{
		"payment_methods.gift_card_1000004.balance": `500`,
	})
}

func TestAddresses(t *testing.T) {
	shop := smallShop(t, nil)
	const rest = `"zip":"1","address1":"A","address2":"","city":"Köln","state":"NW","country":"Germany"}`
	const want = `{"address1": "A", "address2": "", "city": "K\u00f6ln", "state": "NW", "country": "Germany", "zip": "1"}`
	expect(t, ok(t, shop, "r", "retail/modify_pending_order_address", `{"order_id":"#W1000001",`+rest), map[string]string{"address": want})
	expect(t, ok(t, shop, "r", "retail/modify_user_address", `{"user_id":"ada_sample_1001",`+rest), map[string]string{"address": want})
	if got, _ := shop.Call("r", "retail/modify_pending_order_address", []byte(`{"order_id":"#W1000002",`+rest)); got != "Error: non-pending order cannot be modified" {
		t.Errorf("a delivered order: %s", got)
	}
}

func TestModifyPayment(t *testing.T) {
	shop := smallShop(t, nil)
	const tool = "retail/modify_pending_order_payment"
	for input, want := range map[string]string{
		`{"order_id":"#W1000001","payment_method_id":"gift_card_1000002"}`:   "Error: insufficient gift card balance to pay for the order",
		`{"order_id":"#W1000001","payment_method_id":"credit_card_1000001"}`: "Error: the new payment method should be different from the current one",
		`{"order_id":"#W1000001","payment_method_id":"paypal_1000003"}`:      "Error: payment method not found",
		`{"order_id":"#W1000006","payment_method_id":"credit_card_1000007"}`: "Error: non-pending order cannot be modified",
		`{"order_id":"#W9","payment_method_id":"credit_card_1000007"}`:       "Error: order not found",
	} {
		if got, _ := shop.Call("r", tool, []byte(input)); got != want {
			t.Errorf("%s: got %s", input, got)
		}
	}
	out := ok(t, shop, "r", tool, `{"order_id":"#W1000003","payment_method_id":"paypal_1000003"}`)
	expect(t, out, map[string]string{
		"status":            `"pending"`,
		"payment_history.1": `{"transaction_type": "payment", "amount": 64.2, "payment_method_id": "paypal_1000003"}`,
		"payment_history.2": `{"transaction_type": "refund", "amount": 64.2, "payment_method_id": "gift_card_1000004"}`,
	})
	if got, _ := shop.Call("r", tool, []byte(`{"order_id":"#W1000003","payment_method_id":"gift_card_1000004"}`)); got != "Error: there should be exactly one payment for a pending order" {
		t.Errorf("a second change: %s", got)
	}
}

func TestModifyItems(t *testing.T) {
	shop := smallShop(t, nil)
	const tool = "retail/modify_pending_order_items"
	for input, want := range map[string]string{
		`{"order_id":"#W1000001","item_ids":["3000000012"],"new_item_ids":["3000000011"],"payment_method_id":"x"}`:                 "Error: 3000000012 not found",
		`{"order_id":"#W1000001","item_ids":["3000000011","3000000011","3000000011"],"new_item_ids":[],"payment_method_id":"x"}`:   "Error: 3000000011 not found",
		`{"order_id":"#W1000001","item_ids":["3000000011"],"new_item_ids":[],"payment_method_id":"x"}`:                             "Error: the number of items to be exchanged should match",
		`{"order_id":"#W1000001","item_ids":["3000000011"],"new_item_ids":["3000000013"],"payment_method_id":"x"}`:                 "Error: new item 3000000013 not found or available",
		`{"order_id":"#W1000001","item_ids":["3000000011"],"new_item_ids":["3000000021"],"payment_method_id":"x"}`:                 "Error: new item 3000000021 not found or available",
		`{"order_id":"#W1000001","item_ids":["3000000011"],"new_item_ids":["3000000012"],"payment_method_id":"x"}`:                 "Error: payment method not found",
		`{"order_id":"#W1000001","item_ids":["3000000021"],"new_item_ids":["3000000023"],"payment_method_id":"gift_card_1000002"}`: "Error: insufficient gift card balance to pay for the new item",
		`{"order_id":"#W1000002","item_ids":["3000000012"],"new_item_ids":["3000000011"],"payment_method_id":"x"}`:                 "Error: non-pending order cannot be modified",
	} {
		if got, _ := shop.Call("r", tool, []byte(input)); got != want {
			t.Errorf("%s: got %s", input, got)
		}
	}
	out := ok(t, shop, "r", tool, `{"order_id":"#W1000001","item_ids":["3000000011","3000000021"],"new_item_ids":["3000000012","3000000022"],"payment_method_id":"gift_card_1000002"}`)
	expect(t, out, map[string]string{
		"status":            `"pending (item modified)"`,
		"items.0.item_id":   `"3000000012"`,
		"items.1.item_id":   `"3000000011"`,
		"items.2.options":   `{"color": "white", "light": "cold"}`,
		"items.2.price":     `64.2`,
		"payment_history.1": `{"transaction_type": "payment", "amount": 6.5, "payment_method_id": "gift_card_1000002"}`,
	})
	expect(t, ok(t, shop, "r", "retail/get_user_details", `{"user_id":"ada_sample_1001"}`), map[string]string{
		// Rounded: doubles make 28.549999999999997 of it.
		"payment_methods.gift_card_1000002.balance": `28.55`,
	})
	if got, _ := shop.Call("r", tool, []byte(`{"order_id":"#W1000001","item_ids":[],"new_item_ids":[],"payment_method_id":"gift_card_1000002"}`)); got != "Error: non-pending order cannot be modified" {
		t.Errorf("a second change: %s", got)
	}
}

func TestModifyItemsDoesNotRound(t *testing.T) {
	shop := smallShop(t, nil)
	out := ok(t, shop, "r", "retail/modify_pending_order_items", `{"order_id":"#W1000003","item_ids":["3000000022"],"new_item_ids":["3000000021"],"payment_method_id":"paypal_1000003"}`)
	expect(t, out, map[string]string{
		"payment_history.1": `{"transaction_type": "refund", "amount": 4.25, "payment_method_id": "paypal_1000003"}`,
	})
	out = ok(t, shop, "s", "retail/modify_pending_order_items", `{"order_id":"#W1000003","item_ids":["3000000022"],"new_item_ids":["3000000023"],"payment_method_id":"gift_card_1000004"}`)
	expect(t, out, map[string]string{"payment_history.1.amount": `55.8`})
	out = ok(t, shop, "s", "retail/modify_pending_order_items", `{"order_id":"#W1000001","item_ids":["3000000011"],"new_item_ids":["3000000014"],"payment_method_id":"credit_card_1000001"}`)
	expect(t, out, map[string]string{"payment_history.1.amount": `3.4000000000000004`})
}

func TestExchange(t *testing.T) {
	shop := smallShop(t, nil)
	const tool = "retail/exchange_delivered_order_items"
	const dear = `{"order_id":"#W1000005","item_ids":["3000000032"],"new_item_ids":["3000000031"],"payment_method_id":"gift_card_1000005"}`
	for input, want := range map[string]string{
		`{"order_id":"#W1000001","item_ids":[],"new_item_ids":[],"payment_method_id":"x"}`:                         "Error: non-delivered order cannot be exchanged",
		`{"order_id":"#W1000002","item_ids":["3000000012"],"new_item_ids":["3000000011"],"payment_method_id":"x"}`: "Error: payment method not found",
		`{"order_id":"#W1000002","item_ids":["3000000012"],"new_item_ids":["3000000031"],"payment_method_id":"x"}`: "Error: new item 3000000031 not found or available",
	} {
		if got, _ := shop.Call("r", tool, []byte(input)); got != want {
			t.Errorf("%s: got %s", input, got)
		}
	}
	expect(t, ok(t, shop, "r", tool, dear), map[string]string{
		"status": `"exchange requested"`, "exchange_items": `["3000000032"]`, "exchange_new_items": `["3000000031"]`,
		"exchange_payment_method_id": `"gift_card_1000005"`, "exchange_price_difference": `-6.45`,
	})
	if got, _ := shop.Call("r", tool, []byte(dear)); got != "Error: non-delivered order cannot be exchanged" {
		t.Errorf("a second exchange: %s", got)
	}
	out := ok(t, shop, "r", tool, `{"order_id":"#W1000004","item_ids":["3000000014","3000000021"],"new_item_ids":["3000000012","3000000023"],"payment_method_id":"gift_card_1000004"}`)
	expect(t, out, map[string]string{
		"exchange_items": `["3000000014", "3000000021"]`, "exchange_price_difference": `65.7`,
	})
}

func TestExchangeBeyondGiftCard(t *testing.T) {
	shop := smallShop(t, nil)
	const tool = "retail/exchange_delivered_order_items"
	const dearer = `{"order_id":"#W1000005","item_ids":["3000000031"],"new_item_ids":["3000000032"],"payment_method_id":"gift_card_1000005"}`
	if got, _ := shop.Call("r", tool, []byte(dearer)); got != "Error: insufficient gift card balance to pay for the price difference" {
		t.Errorf("6.45 from a card of 5: %s", got)
	}
	ok(t, shop, "r", tool, change(dearer, "gift_card_1000005", "credit_card_1000006"))
}

func TestReturn(t *testing.T) {
	shop := smallShop(t, nil)
	const tool = "retail/return_delivered_order_items"
	for input, want := range map[string]string{
		`{"order_id":"#W1000003","item_ids":[],"payment_method_id":"x"}`:                          "Error: non-delivered order cannot be returned",
		`{"order_id":"#W1000004","item_ids":[],"payment_method_id":"x"}`:                          "Error: payment method not found",
		`{"order_id":"#W1000005","item_ids":[],"payment_method_id":"credit_card_1000006"}`:        "Error: payment method should be either the original payment method or a gift card",
		`{"order_id":"#W1000004","item_ids":["3000000012"],"payment_method_id":"paypal_1000003"}`: "Error: some item not found",
	} {
		if got, _ := shop.Call("r", tool, []byte(input)); got != want {
			t.Errorf("%s: got %s", input, got)
		}
	}
	out := ok(t, shop, "r", tool, `{"order_id":"#W1000004","item_ids":["3000000021","3000000014"],"payment_method_id":"gift_card_1000004"}`)
	expect(t, out, map[string]string{
		"status": `"return requested"`, "return_items": `["3000000014", "3000000021"]`, "return_payment_method_id": `"gift_card_1000004"`,
	})
	if got, _ := shop.Call("r", tool, []byte(`{"order_id":"#W1000004","item_ids":[],"payment_method_id":"gift_card_1000004"}`)); got != "Error: non-delivered order cannot be returned" {
		t.Errorf("a second return: %s", got)
	}
}
