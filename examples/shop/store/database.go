// Package store holds the shop's data: six tables that are read once and never
// change, and for each run an overlay of the records that the run has changed.
//
// A run therefore starts from fresh data at no cost, whatever other runs did,
// and a tool that fails half-way leaves nothing behind: its changes become part
// of the overlay all at once, or never.
package store

import (
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"mulligan/examples/shop/pyval"
)

// Table names one of the six tables, and its file without the ending.
type Table string

// The tables. Each is one JSON object of records by id.
const (
	AirlineFlights      Table = "airline_flights"
	AirlineReservations Table = "airline_reservations"
	AirlineUsers        Table = "airline_users"
	RetailOrders        Table = "retail_orders"
	RetailProducts      Table = "retail_products"
	RetailUsers         Table = "retail_users"
)

// Tables returns all tables, by name.
func Tables() []Table {
	return []Table{
		AirlineFlights, AirlineReservations, AirlineUsers,
		RetailOrders, RetailProducts, RetailUsers,
	}
}

// maxFile bounds the text of one table, so that a small compressed file cannot
// fill the memory.
const maxFile = 256 << 20

// Database is the data every run starts from. It is safe for concurrent use,
// since nothing changes it after [Load].
type Database struct {
	tables map[Table]*pyval.Dict
}

// Load reads the six tables from the top of a folder, each from NAME.json or
// NAME.json.gz, and checks that each record has the fields the tools rely on.
// The order of records and of their keys is kept.
func Load(folder fs.FS) (*Database, error) {
	db := &Database{tables: make(map[Table]*pyval.Dict)}
	for _, table := range Tables() {
		text, err := readTable(folder, table)
		if err != nil {
			return nil, fmt.Errorf("table %s: %w", table, err)
		}
		v, err := pyval.Decode(text)
		if err != nil {
			return nil, fmt.Errorf("table %s: %w", table, err)
		}
		if err := shapeOf(table)(v); err != nil {
			return nil, fmt.Errorf("table %s: %w", table, err)
		}
		db.tables[table] = v.(*pyval.Dict)
	}
	return db, nil
}

func readTable(folder fs.FS, table Table) ([]byte, error) {
	plain, zipped := string(table)+".json", string(table)+".json.gz"
	text, err := readFile(folder, plain, false)
	packed, errPacked := readFile(folder, zipped, true)
	switch {
	case err == nil && errPacked == nil:
		return nil, fmt.Errorf("both %s and %s are there; remove one", plain, zipped)
	case err == nil && errors.Is(errPacked, fs.ErrNotExist):
		return text, nil
	case errPacked == nil && errors.Is(err, fs.ErrNotExist):
		return packed, nil
	case errors.Is(err, fs.ErrNotExist) && errors.Is(errPacked, fs.ErrNotExist):
		return nil, fmt.Errorf("neither %s nor %s is in the data folder: %w", plain, zipped, fs.ErrNotExist)
	default:
		return nil, errors.Join(ignoreMissing(err), ignoreMissing(errPacked))
	}
}

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

func readFile(folder fs.FS, name string, zipped bool) (text []byte, err error) {
	file, err := folder.Open(name)
	if err != nil {
		return nil, err
	}
	// Nothing was written, so closing has nothing to lose.
	defer file.Close()
	var r io.Reader = file
	if zipped {
		if r, err = gzip.NewReader(file); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	text, err = io.ReadAll(io.LimitReader(r, maxFile+1))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if len(text) > maxFile {
		return nil, fmt.Errorf("%s holds more than %d MiB of text", name, maxFile>>20)
	}
	return text, nil
}
