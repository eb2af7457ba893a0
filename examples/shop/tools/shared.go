package tools

import (
	"mulligan/examples/shop/pycalc"
	"mulligan/examples/shop/pyval"
	"mulligan/examples/shop/store"
)

// The tools that both domains have, and the steps that several tools share.

func sharedTools(domain string) []definition {
	return []definition{{
		domain: domain, name: "calculate", effect: ReadOnly,
		description: "Evaluate an arithmetic expression and round the result to two decimals.",
		params: []param{{"expression", text(
			"An expression of numbers, the operators + - * /, parentheses and spaces, for example '2 * (19.99 + 5)'.")}},
		run: calculate,
	}, {
		domain: domain, name: "think", effect: ReadOnly,
		description: "Write down a thought. Nothing is looked up or changed; useful before a decision that takes several steps.",
		params:      []param{{"thought", text("The thought.")}},
		run:         func(*store.Tx, args) (string, error) { return "", nil },
	}, {
		domain: domain, name: "transfer_to_human_agents", effect: ReadOnly,
		description: "Hand the user over to a human agent. For users who ask for one, and for matters no other tool can settle.",
		params:      []param{{"summary", text("What the user wants and what was done so far.")}},
		run:         func(*store.Tx, args) (string, error) { return "Transfer successful", nil },
	}}
}

func calculate(_ *store.Tx, in args) (string, error) {
	chars, err := pyval.Iterate(in["expression"])
	if err != nil {
		return "", err
	}
	for _, c := range chars {
		ok, err := pyval.Contains(pyval.Str(pycalc.Alphabet), c)
		if err != nil {
			return "", err
		}
		if !ok {
			return "", fail("invalid characters in expression")
		}
	}
	expression, ok := in["expression"].(pyval.Str)
	if !ok {
		return "", fail("eval() arg 1 must be a string, bytes or code object")
	}
	return pycalc.Calculate(string(expression))
}

// find returns a record for reading by an id from the arguments, or fails with
// the given text.
func find(tx *store.Tx, table store.Table, id pyval.Value, notFound string) (*pyval.Dict, error) {
	switch id := id.(type) {
	case pyval.Str:
		if record, ok := tx.Get(table, string(id)); ok {
			return record, nil
		}
	case *pyval.List, *pyval.Dict:
		return nil, pyval.Unhashable(id)
	}
	return nil, fail("%s", notFound)
}

// show is the tool that prints one record.
func show(table store.Table, idParam, notFound string) func(*store.Tx, args) (string, error) {
	return func(tx *store.Tx, in args) (string, error) {
		record, err := find(tx, table, in[idParam], notFound)
		if err != nil {
			return "", err
		}
		return pyval.Dumps(record), nil
	}
}

// edit returns the transaction's own copy of a record that was found before.
func edit(tx *store.Tx, table store.Table, id pyval.Value) (*pyval.Dict, error) {
	record, ok := tx.Edit(table, pyval.Text(id))
	if !ok {
		return nil, pyval.KeyError(id)
	}
	return record, nil
}

// owner returns, for reading, the user that an order or a reservation names.
func owner(tx *store.Tx, users store.Table, record *pyval.Dict) (*pyval.Dict, error) {
	id := str(record, "user_id")
	user, ok := tx.Get(users, id)
	if !ok {
		return nil, pyval.KeyError(pyval.Str(id))
	}
	return user, nil
}

// str reads a field of a record that the store has checked to be a text.
func str(record *pyval.Dict, field string) string {
	v, _ := record.Get(field)
	s, _ := v.(pyval.Str)
	return string(s)
}

// dict reads a field of a record that the store has checked to be an object.
func dict(record *pyval.Dict, field string) *pyval.Dict {
	v, _ := record.Get(field)
	d, ok := v.(*pyval.Dict)
	if !ok {
		return &pyval.Dict{}
	}
	return d
}

// ordered returns an object of keys and values, given in turn.
func ordered(pairs ...any) *pyval.Dict {
	d := &pyval.Dict{}
	for i := 0; i+1 < len(pairs); i += 2 {
		d.Set(pairs[i].(string), pairs[i+1].(pyval.Value))
	}
	return d
}

// paymentMethod returns, for reading, the method of that id in the user's
// profile, or fails.
func paymentMethod(user *pyval.Dict, id pyval.Value) (*pyval.Dict, error) {
	v, found, err := pyval.Lookup(dict(user, "payment_methods"), id)
	if err != nil {
		return nil, err
	}
	if !found {
		return nil, fail("payment method not found")
	}
	return v.(*pyval.Dict), nil
}

// cannotPay says whether the method is of that kind and its balance, kept under
// field, is below the amount.
func cannotPay(method *pyval.Dict, kind, field string, amount pyval.Value) (bool, error) {
	if str(method, "source") != kind {
		return false, nil
	}
	balance, err := pyval.Item(method, field)
	if err != nil {
		return false, err
	}
	return pyval.Less(balance, amount)
}

// change sets a number in a record to `number op by`.
func change(record *pyval.Dict, field string, op pyval.Op, by pyval.Value) error {
	old, err := pyval.Item(record, field)
	if err != nil {
		return err
	}
	v, err := pyval.Arith(op, old, by)
	if err != nil {
		return err
	}
	record.Set(field, v)
	return nil
}

func address(in args) *pyval.Dict {
	d := &pyval.Dict{}
	for _, field := range addressFields() {
		d.Set(field, in[field])
	}
	return d
}

func addressFields() []string {
	return []string{"address1", "address2", "city", "state", "country", "zip"}
}
