package tools

import (
	"maps"
	"slices"

	"mulligan/examples/shop/pyval"
	"mulligan/examples/shop/store"
)

func findUserByEmail(tx *store.Tx, in args) (string, error) {
	email, err := pyval.Lower(in["email"])
	if err != nil {
		return "", err
	}
	for id, user := range tx.All(store.RetailUsers) {
		if lower(user, "email") == email {
			return id, nil
		}
	}
	return "", fail("user not found")
}

func findUserByNameZip(tx *store.Tx, in args) (string, error) {
	first, err := pyval.Lower(in["first_name"])
	if err != nil {
		return "", err
	}
	for id, user := range tx.All(store.RetailUsers) {
		name := dict(user, "name")
		if lower(name, "first_name") != first {
			continue
		}
		// The original looks at the last name only once a first name fits.
		last, err := pyval.Lower(in["last_name"])
		if err != nil {
			return "", err
		}
		if lower(name, "last_name") != last {
			continue
		}
		if zip, ok := dict(user, "address").Get("zip"); ok && pyval.Equal(zip, in["zip"]) {
			return id, nil
		}
	}
	return "", fail("user not found")
}

func lower(record *pyval.Dict, field string) string {
	s, _ := pyval.Lower(pyval.Str(str(record, field)))
	return s
}

func listProducts(tx *store.Tx, _ args) (string, error) {
	ids := make(map[string]string)
	for _, product := range tx.All(store.RetailProducts) {
		ids[str(product, "name")] = str(product, "product_id")
	}
	list := &pyval.Dict{}
	for _, name := range slices.Sorted(maps.Keys(ids)) {
		list.Set(name, pyval.Str(ids[name]))
	}
	return pyval.Dumps(list), nil
}

func byName(tools []definition) []definition {
	slices.SortFunc(tools, func(a, b definition) int {
		if a.name < b.name {
			return -1
		}
		return 1
	})
	return tools
}
