package store_test

import (
	"bytes"
	"compress/gzip"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"

	"mulligan/examples/shop/data"
	"mulligan/examples/shop/pyval"
	"mulligan/examples/shop/store"
)

// folder is the small set of data, to be damaged.
func folder(t *testing.T) fstest.MapFS {
	t.Helper()
	files := make(fstest.MapFS)
	for _, table := range store.Tables() {
		name := string(table) + ".json"
		text, err := fs.ReadFile(data.Small(), name)
		if err != nil {
			t.Fatal(err)
		}
		files[name] = &fstest.MapFile{Data: text}
	}
	return files
}

func zipped(t *testing.T, text []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := w.Write(text); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestLoadPlainAndZipped(t *testing.T) {
	files := folder(t)
	name := string(store.RetailOrders) + ".json"
	files[name+".gz"] = &fstest.MapFile{Data: zipped(t, files[name].Data)}
	delete(files, name)
	db, err := store.Load(files)
	if err != nil {
		t.Fatal(err)
	}
	run := open(t, store.NewRuns(db, 1), "r")
	read(t, run, func(tx *store.Tx) {
		if _, ok := tx.Get(store.RetailOrders, "#W1000001"); !ok {
			t.Error("an order of the zipped table is missing")
		}
	})
}

func TestLoadSaysWhatIsWrong(t *testing.T) {
	orders, users := string(store.RetailOrders)+".json", string(store.AirlineUsers)+".json"
	for name, c := range map[string]struct {
		damage func(fstest.MapFS)
		want   string
	}{
		"missing":   {func(f fstest.MapFS) { delete(f, orders) }, "neither retail_orders.json nor retail_orders.json.gz"},
		"both":      {func(f fstest.MapFS) { f[orders+".gz"] = &fstest.MapFile{Data: zipped(t, []byte("{}"))} }, "both retail_orders.json and retail_orders.json.gz"},
		"no gzip":   {func(f fstest.MapFS) { delete(f, orders); f[orders+".gz"] = &fstest.MapFile{Data: []byte("{}")} }, "retail_orders.json.gz"},
		"no JSON":   {func(f fstest.MapFS) { f[orders].Data = []byte(`{"a"`) }, "table retail_orders: JSON, byte 4"},
		"no object": {func(f fstest.MapFS) { f[orders].Data = []byte(`[]`) }, "an object is needed, not a list"},
		"no status": {func(f fstest.MapFS) { replace(f, orders, `"status": "pending"`, `"state": "pending"`) }, `"#W1000001": field "status" is missing`},
		"price":     {func(f fstest.MapFS) { replace(f, orders, `"price": 12.5`, `"price": "12.5"`) }, "items: item 0: price: a number is needed, not a str"},
		"payments":  {func(f fstest.MapFS) { replace(f, users, `"payment_methods": {`, `"payment_methods": [], "x": {`) }, "payment_methods: an object is needed, not a list"},
		"seats": {func(f fstest.MapFS) {
			replace(f, string(store.AirlineFlights)+".json", `"available_seats"`, `"seats"`)
		}, `field "available_seats" is missing`},
	} {
		t.Run(name, func(t *testing.T) {
			files := folder(t)
			c.damage(files)
			if _, err := store.Load(files); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("the error is %v, not one about %q", err, c.want)
			}
		})
	}
}

func replace(f fstest.MapFS, name, from, to string) {
	f[name].Data = bytes.Replace(f[name].Data, []byte(from), []byte(to), 1)
}

func open(t *testing.T, runs *store.Runs, id string) *store.Run {
	t.Helper()
	run, err := runs.Open(id)
	if err != nil {
		t.Fatal(err)
	}
	return run
}

func read(t *testing.T, run *store.Run, f func(*store.Tx)) {
	t.Helper()
	if err := run.Do(func(tx *store.Tx) error { f(tx); return nil }); err != nil {
		t.Fatal(err)
	}
}

func small(t *testing.T, limit int) *store.Runs {
	t.Helper()
	db, err := store.Load(data.Small())
	if err != nil {
		t.Fatal(err)
	}
	return store.NewRuns(db, limit)
}

func text(record *pyval.Dict, field string) string {
	v, ok := record.Get(field)
	if !ok {
		return ""
	}
	return pyval.Text(v)
}
