package tools

import (
	"slices"
	"strings"

	"mulligan/examples/shop/pyval"
	"mulligan/examples/shop/store"
)

// Writers of the store that exchange or give back items.

// swap is one item of an order and the variant wanted instead.
type swap struct {
	old, wanted pyval.Value
}

// itemsOf returns the items of an order, which the store has checked.
func itemsOf(order *pyval.Dict) []*pyval.Dict {
	v, _ := order.Get("items")
	list, _ := v.(*pyval.List)
	items := make([]*pyval.Dict, 0, len(list.Items))
	for _, item := range list.Items {
		items = append(items, item.(*pyval.Dict))
	}
	return items
}

// missingItem returns the first of the ids that is asked for more often than
// the order has it, or nil.
func missingItem(order *pyval.Dict, ids pyval.Value) (pyval.Value, error) {
	all := pyval.NewList()
	for _, item := range itemsOf(order) {
		all.Items = append(all.Items, pyval.Str(str(item, "item_id")))
	}
	asked, err := pyval.Iterate(ids)
	if err != nil {
		return nil, err
	}
	for _, id := range asked {
		wanted, err := pyval.Count(ids, id)
		if err != nil {
			return nil, err
		}
		if has, _ := pyval.Count(all, id); wanted > has {
			return id, nil
		}
	}
	return nil, nil
}

// swaps checks what is to be exchanged for what, and returns the pairs with the
// unrounded difference of their prices.
func swaps(tx *store.Tx, order *pyval.Dict, in args) ([]swap, pyval.Value, error) {
	missing, err := missingItem(order, in["item_ids"])
	if err != nil {
		return nil, nil, err
	}
	if missing != nil {
		return nil, nil, fail("%s not found", pyval.Text(missing))
	}
	if same, err := sameLength(in["item_ids"], in["new_item_ids"]); err != nil {
		return nil, nil, err
	} else if !same {
		return nil, nil, fail("the number of items to be exchanged should match")
	}
	// Both have a length, so both can be gone through.
	old, _ := pyval.Iterate(in["item_ids"])
	wanted, _ := pyval.Iterate(in["new_item_ids"])
	pairs := make([]swap, len(old))
	var difference pyval.Value = pyval.NewInt(0)
	for i := range old {
		pairs[i] = swap{old[i], wanted[i]}
		d, err := priceDifference(tx, order, pairs[i])
		if err != nil {
			return nil, nil, err
		}
		if difference, err = pyval.Arith(pyval.AddTo, difference, d); err != nil {
			return nil, nil, err
		}
	}
	return pairs, difference, nil
}

func sameLength(a, b pyval.Value) (bool, error) {
	lenA, err := pyval.Len(a)
	if err != nil {
		return false, err
	}
	lenB, err := pyval.Len(b)
	return lenA == lenB, err
}

func priceDifference(tx *store.Tx, order *pyval.Dict, s swap) (pyval.Value, error) {
	item := itemOf(order, s.old)
	variant, err := variantOf(tx, item, s.wanted)
	if err != nil {
		return nil, err
	}
	if variant == nil || !available(variant) {
		return nil, fail("new item %s not found or available", pyval.Text(s.wanted))
	}
	oldPrice, _ := item.Get("price")
	newPrice, _ := variant.Get("price")
	return pyval.Arith(pyval.Sub, newPrice, oldPrice)
}

// itemOf returns the first item of that id, which missingItem has seen.
func itemOf(order *pyval.Dict, id pyval.Value) *pyval.Dict {
	for _, item := range itemsOf(order) {
		if pyval.Equal(pyval.Str(str(item, "item_id")), id) {
			return item
		}
	}
	return &pyval.Dict{}
}

// variantOf returns the variant of that id of the item's product, or nil.
func variantOf(tx *store.Tx, item *pyval.Dict, id pyval.Value) (*pyval.Dict, error) {
	productID := str(item, "product_id")
	product, ok := tx.Get(store.RetailProducts, productID)
	if !ok {
		return nil, pyval.KeyError(pyval.Str(productID))
	}
	v, found, err := pyval.Lookup(dict(product, "variants"), id)
	if err != nil || !found {
		return nil, err
	}
	return v.(*pyval.Dict), nil
}

func available(variant *pyval.Dict) bool {
	v, _ := variant.Get("available")
	return v == pyval.Bool(true)
}

// affordable finds the payment method of the arguments in the profile of the
// order's user and fails if it is a gift card that cannot pay the difference.
func affordable(tx *store.Tx, order *pyval.Dict, in args, difference pyval.Value, otherwise string) (*pyval.Dict, error) {
	user, err := owner(tx, store.RetailUsers, order)
	if err != nil {
		return nil, err
	}
	method, err := paymentMethod(user, in["payment_method_id"])
	if err != nil {
		return nil, err
	}
	if short, err := cannotPay(method, "gift_card", "balance", difference); err != nil {
		return nil, err
	} else if short {
		return nil, fail("%s", otherwise)
	}
	return method, nil
}

func exchangeItems(tx *store.Tx, in args) (string, error) {
	order, err := orderIn(tx, in, "delivered", "non-delivered order cannot be exchanged")
	if err != nil {
		return "", err
	}
	_, difference, err := swaps(tx, order, in)
	if err != nil {
		return "", err
	}
	difference = pyval.Round2(difference)
	if _, err := affordable(tx, order, in, difference,
		"insufficient gift card balance to pay for the price difference"); err != nil {
		return "", err
	}
	if order, err = edit(tx, store.RetailOrders, in["order_id"]); err != nil {
		return "", err
	}
	order.Set("status", pyval.Str("exchange requested"))
	order.Set("exchange_items", sorted(in["item_ids"]))
	order.Set("exchange_new_items", sorted(in["new_item_ids"]))
	order.Set("exchange_payment_method_id", in["payment_method_id"])
	order.Set("exchange_price_difference", difference)
	return pyval.Dumps(order), nil
}

// sorted returns item ids in order. All of them are texts, having been found in
// an order or a product.
func sorted(ids pyval.Value) *pyval.List {
	items, _ := pyval.Iterate(ids)
	items = slices.Clone(items)
	slices.SortFunc(items, func(a, b pyval.Value) int {
		return strings.Compare(pyval.Text(a), pyval.Text(b))
	})
	return pyval.NewList(items...)
}

func modifyItems(tx *store.Tx, in args) (string, error) {
	order, err := orderIn(tx, in, "pending", "non-pending order cannot be modified")
	if err != nil {
		return "", err
	}
	pairs, difference, err := swaps(tx, order, in)
	if err != nil {
		return "", err
	}
	method, err := affordable(tx, order, in, difference,
		"insufficient gift card balance to pay for the new item")
	if err != nil {
		return "", err
	}
	if order, err = edit(tx, store.RetailOrders, in["order_id"]); err != nil {
		return "", err
	}
	if err := settle(tx, order, method, in["payment_method_id"], difference); err != nil {
		return "", err
	}
	for _, s := range pairs {
		if err := replaceItem(tx, order, s); err != nil {
			return "", err
		}
	}
	order.Set("status", pyval.Str("pending (item modified)"))
	return pyval.Dumps(order), nil
}

// settle records the payment or refund of a difference and moves it on a gift
// card.
func settle(tx *store.Tx, order, method *pyval.Dict, methodID, difference pyval.Value) error {
	kind := "refund"
	if pays, err := pyval.Less(pyval.NewInt(0), difference); err != nil {
		return err
	} else if pays {
		kind = "payment"
	}
	if err := extendHistory(order, transaction(kind, pyval.Abs(difference), methodID)); err != nil {
		return err
	}
	if str(method, "source") != "gift_card" {
		return nil
	}
	return moveBalance(tx, order, pyval.Text(methodID), pyval.SubFrom, difference)
}

func replaceItem(tx *store.Tx, order *pyval.Dict, s swap) error {
	item := itemOf(order, s.old)
	variant, err := variantOf(tx, item, s.wanted)
	if err != nil {
		return err
	}
	if variant == nil {
		return pyval.KeyError(s.wanted)
	}
	price, _ := variant.Get("price")
	options, _ := variant.Get("options")
	item.Set("item_id", s.wanted)
	item.Set("price", price)
	item.Set("options", pyval.Clone(options))
	return nil
}

func returnItems(tx *store.Tx, in args) (string, error) {
	order, err := orderIn(tx, in, "delivered", "non-delivered order cannot be returned")
	if err != nil {
		return "", err
	}
	user, err := owner(tx, store.RetailUsers, order)
	if err != nil {
		return "", err
	}
	if _, err := paymentMethod(user, in["payment_method_id"]); err != nil {
		return "", err
	}
	// The profile holds the method, so its id is a text.
	method := pyval.Text(in["payment_method_id"])
	if !strings.Contains(method, "gift_card") && method != str(payments(order)[0], "payment_method_id") {
		return "", fail("payment method should be either the original payment method or a gift card")
	}
	if missing, err := missingItem(order, in["item_ids"]); err != nil {
		return "", err
	} else if missing != nil {
		return "", fail("some item not found")
	}
	if order, err = edit(tx, store.RetailOrders, in["order_id"]); err != nil {
		return "", err
	}
	order.Set("status", pyval.Str("return requested"))
	order.Set("return_items", sorted(in["item_ids"]))
	order.Set("return_payment_method_id", pyval.Str(method))
	return pyval.Dumps(order), nil
}
