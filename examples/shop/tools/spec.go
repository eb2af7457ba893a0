// Package tools holds the shop's 30 tools: 16 of a retail store, 14 of an
// airline. Each is a function of the state and the arguments that answers a
// text, and its answers are those of the Python program whose calls were
// recorded, byte for byte: the order of keys, the spaces of json.dumps, numbers
// as Python prints and rounds them, and the texts of exceptions, a wrong type
// included.
//
// What matters to whoever replays recorded calls:
//
//   - A run starts from fresh data, and its calls act on one another: an order
//     is pending until a call of the same run changed it. Replay the calls of
//     one run in the order they were made, failing ones included.
//   - Ids are taken as they are. The "#" belongs to the id of an order; e-mails
//     and names ignore case, a postal code does not.
//   - The order of the keys of an input counts where it is stored and shown
//     again (flights, passengers and payments of a booking), and decides which
//     of two unknown arguments is reported.
//   - An amount of 10 and one of 10.0 are told apart in what is printed.
//   - New ids are not random: bookings are HATHAT, HATHAU and HATHAV, later ones
//     overwrite HATHAV; certificates are certificate_3221322 and the next two.
//
// Differences on purpose: a call that fails in the middle of its changes leaves
// none (the original kept the part that was done), a fourth certificate fails
// with a text (the original broke off), and the limits of pyval and pycalc hold.
package tools

import (
	"encoding/json"

	"mulligan/examples/shop/store"
)

// The two domains.
const (
	Retail  = "retail"
	Airline = "airline"
)

// The effects a tool may declare.
const (
	ReadOnly = "read_only"
	Unsafe   = "unsafe"
)

// Spec describes a tool to whoever offers it.
type Spec struct {
	// Name is unique: the domain, a slash, and the name within the domain.
	Name string
	// Domain is Retail or Airline.
	Domain string
	// Effect is ReadOnly for a tool that leaves the state alone. It is Unsafe
	// for one that changes it, since doing that twice does something else than
	// doing it once: it fails, or it books and pays again.
	Effect string
	// Description says what the tool does, for a model.
	Description string
	// Schema is the JSON Schema of the arguments.
	Schema json.RawMessage
}

// Tools returns the specifications of all tools, retail first, by name within
// each domain. The caller may keep and change them.
func Tools() []Spec {
	var specs []Spec
	for _, d := range definitions() {
		specs = append(specs, d.spec())
	}
	return specs
}

// definition is a tool with its code.
type definition struct {
	domain      string
	name        string
	effect      string
	description string
	// params stand in the order of the original's signature, which shows in the
	// text about missing arguments.
	params []param
	run    func(tx *store.Tx, in args) (string, error)
}

func definitions() []definition {
	return append(retailTools(), airlineTools()...)
}

func (d definition) fullName() string { return d.domain + "/" + d.name }

func (d definition) spec() Spec {
	return Spec{
		Name:        d.fullName(),
		Domain:      d.domain,
		Effect:      d.effect,
		Description: d.description,
		Schema:      object(d.params...).encode(),
	}
}
