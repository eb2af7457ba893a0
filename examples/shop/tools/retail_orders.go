package tools

import (
	"strings"

	"mulligan/examples/shop/pyval"
	"mulligan/examples/shop/store"
)

// Writers of the store that do not touch the items of an order.

// orderIn returns an order for reading that has the given status, or fails with
// the text for one that has another.
func orderIn(tx *store.Tx, in args, status, otherwise string) (*pyval.Dict, error) {
	order, err := find(tx, store.RetailOrders, in["order_id"], "order not found")
	if err != nil {
		return nil, err
	}
	if str(order, "status") != status {
		return nil, fail("%s", otherwise)
	}
	return order, nil
}

func cancelOrder(tx *store.Tx, in args) (string, error) {
	if _, err := orderIn(tx, in, "pending", "non-pending order cannot be cancelled"); err != nil {
		return "", err
	}
	reason, ok := in["reason"].(pyval.Str)
	if !ok || reason != "no longer needed" && reason != "ordered by mistake" {
		return "", fail("invalid reason")
	}
	order, err := edit(tx, store.RetailOrders, in["order_id"])
	if err != nil {
		return "", err
	}
	history := payments(order)
	refunds := make([]pyval.Value, 0, len(history))
	for _, payment := range history {
		amount, _ := payment.Get("amount")
		method := str(payment, "payment_method_id")
		refunds = append(refunds, transaction("refund", amount, pyval.Str(method)))
		if err := refundGiftCard(tx, order, method, amount); err != nil {
			return "", err
		}
	}
	order.Set("status", pyval.Str("cancelled"))
	order.Set("cancel_reason", reason)
	if err := extendHistory(order, refunds...); err != nil {
		return "", err
	}
	return pyval.Dumps(order), nil
}

// refundGiftCard puts the amount on a method that is a gift card by its name.
func refundGiftCard(tx *store.Tx, order *pyval.Dict, method string, amount pyval.Value) error {
	if !strings.Contains(method, "gift_card") {
		return nil
	}
	return moveBalance(tx, order, method, pyval.AddTo, amount)
}

// moveBalance changes the balance of a gift card of the order's user, rounded
// to cents.
func moveBalance(tx *store.Tx, order *pyval.Dict, method string, op pyval.Op, amount pyval.Value) error {
	user, err := edit(tx, store.RetailUsers, pyval.Str(str(order, "user_id")))
	if err != nil {
		return err
	}
	card, err := pyval.Item(dict(user, "payment_methods"), method)
	if err != nil {
		return err
	}
	record := card.(*pyval.Dict)
	if err := change(record, "balance", op, amount); err != nil {
		return err
	}
	balance, _ := record.Get("balance")
	record.Set("balance", pyval.Round2(balance))
	return nil
}

// payments returns the transactions of an order, which the store has checked.
func payments(order *pyval.Dict) []*pyval.Dict {
	v, _ := order.Get("payment_history")
	list, _ := v.(*pyval.List)
	history := make([]*pyval.Dict, 0, len(list.Items))
	for _, item := range list.Items {
		history = append(history, item.(*pyval.Dict))
	}
	return history
}

func transaction(kind string, amount, method pyval.Value) *pyval.Dict {
	return ordered("transaction_type", pyval.Str(kind), "amount", amount, "payment_method_id", method)
}

func extendHistory(order *pyval.Dict, items ...pyval.Value) error {
	history, err := pyval.Item(order, "payment_history")
	if err != nil {
		return err
	}
	return pyval.Extend(history, items)
}

func modifyOrderAddress(tx *store.Tx, in args) (string, error) {
	if _, err := orderIn(tx, in, "pending", "non-pending order cannot be modified"); err != nil {
		return "", err
	}
	order, err := edit(tx, store.RetailOrders, in["order_id"])
	if err != nil {
		return "", err
	}
	order.Set("address", address(in))
	return pyval.Dumps(order), nil
}

func modifyUserAddress(tx *store.Tx, in args) (string, error) {
	if _, err := find(tx, store.RetailUsers, in["user_id"], "user not found"); err != nil {
		return "", err
	}
	user, err := edit(tx, store.RetailUsers, in["user_id"])
	if err != nil {
		return "", err
	}
	user.Set("address", address(in))
	return pyval.Dumps(user), nil
}

func modifyPayment(tx *store.Tx, in args) (string, error) {
	order, err := orderIn(tx, in, "pending", "non-pending order cannot be modified")
	if err != nil {
		return "", err
	}
	user, err := owner(tx, store.RetailUsers, order)
	if err != nil {
		return "", err
	}
	method, err := paymentMethod(user, in["payment_method_id"])
	if err != nil {
		return "", err
	}
	history := payments(order)
	if len(history) > 1 || str(history[0], "transaction_type") != "payment" {
		return "", fail("there should be exactly one payment for a pending order")
	}
	paidWith := str(history[0], "payment_method_id")
	if pyval.Equal(pyval.Str(paidWith), in["payment_method_id"]) {
		return "", fail("the new payment method should be different from the current one")
	}
	amount, _ := history[0].Get("amount")
	if short, err := cannotPay(method, "gift_card", "balance", amount); err != nil {
		return "", err
	} else if short {
		return "", fail("insufficient gift card balance to pay for the order")
	}
	return switchPayment(tx, in, paidWith, str(method, "source"), amount)
}

// switchPayment pays the order with the method of the arguments and refunds the
// one it was paid with.
func switchPayment(tx *store.Tx, in args, paidWith, source string, amount pyval.Value) (string, error) {
	order, err := edit(tx, store.RetailOrders, in["order_id"])
	if err != nil {
		return "", err
	}
	err = extendHistory(order,
		transaction("payment", amount, in["payment_method_id"]),
		transaction("refund", amount, pyval.Str(paidWith)))
	if err != nil {
		return "", err
	}
	if source == "gift_card" {
		if err := moveBalance(tx, order, pyval.Text(in["payment_method_id"]), pyval.SubFrom, amount); err != nil {
			return "", err
		}
	}
	if err := refundGiftCard(tx, order, paidWith, amount); err != nil {
		return "", err
	}
	return pyval.Dumps(order), nil
}
