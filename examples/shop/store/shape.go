package store

import (
	"errors"
	"fmt"

	"mulligan/examples/shop/pyval"
)

// shape checks that a value has what the tools read from it; more is allowed.
// Its error names the place from the outside in.
type shape func(pyval.Value) error

func shapeOf(table Table) shape {
	flat := record(field{"source", text})
	switch table {
	case AirlineFlights:
		return mapOf(record(
			field{"flight_number", text}, field{"origin", text}, field{"destination", text},
			field{"scheduled_departure_time_est", text}, field{"scheduled_arrival_time_est", text},
			field{"dates", mapOf(flightDate)},
		))
	case AirlineReservations:
		return mapOf(record(
			field{"user_id", text}, field{"cabin", text}, field{"nonfree_baggages", number},
			field{"passengers", listOf(anything)}, field{"flights", listOf(record(
				field{"flight_number", text}, field{"date", text}, field{"price", number},
				field{"origin", text}, field{"destination", text},
			))},
			field{"payment_history", listOf(record(field{"payment_id", text}, field{"amount", number}))},
		))
	case AirlineUsers:
		return mapOf(record(
			field{"payment_methods", mapOf(flat)}, field{"reservations", listOf(text)},
		))
	case RetailOrders:
		return mapOf(record(
			field{"user_id", text}, field{"status", text},
			field{"items", listOf(record(
				field{"item_id", text}, field{"product_id", text}, field{"price", number},
			))},
			field{"payment_history", nonEmpty(listOf(record(
				field{"transaction_type", text}, field{"amount", number}, field{"payment_method_id", text},
			)))},
		))
	case RetailProducts:
		return mapOf(record(
			field{"name", text}, field{"product_id", text},
			field{"variants", mapOf(record(
				field{"available", boolean}, field{"price", number}, field{"options", anything},
			))},
		))
	default:
		return mapOf(record(
			field{"email", text}, field{"payment_methods", mapOf(flat)},
			field{"name", record(field{"first_name", text}, field{"last_name", text})},
			field{"address", record(field{"zip", text})},
		))
	}
}

// flightDate asks for seats and prices only where a flight can be booked.
func flightDate(v pyval.Value) error {
	if err := record(field{"status", text})(v); err != nil {
		return err
	}
	if status, _ := v.(*pyval.Dict).Get("status"); status != pyval.Str("available") {
		return nil
	}
	return record(field{"available_seats", mapOf(number)}, field{"prices", mapOf(number)})(v)
}

type field struct {
	name  string
	shape shape
}

func record(fields ...field) shape {
	return func(v pyval.Value) error {
		d, ok := v.(*pyval.Dict)
		if !ok {
			return wrongType("an object", v)
		}
		for _, f := range fields {
			value, found := d.Get(f.name)
			if !found {
				return fmt.Errorf("field %q is missing", f.name)
			}
			if err := f.shape(value); err != nil {
				return fmt.Errorf("%s: %w", f.name, err)
			}
		}
		return nil
	}
}

func mapOf(each shape) shape {
	return func(v pyval.Value) error {
		d, ok := v.(*pyval.Dict)
		if !ok {
			return wrongType("an object", v)
		}
		for key, value := range d.All() {
			if err := each(value); err != nil {
				return fmt.Errorf("%q: %w", key, err)
			}
		}
		return nil
	}
}

func listOf(each shape) shape {
	return func(v pyval.Value) error {
		l, ok := v.(*pyval.List)
		if !ok {
			return wrongType("an array", v)
		}
		for i, item := range l.Items {
			if err := each(item); err != nil {
				return fmt.Errorf("item %d: %w", i, err)
			}
		}
		return nil
	}
}

func nonEmpty(list shape) shape {
	return func(v pyval.Value) error {
		if err := list(v); err != nil {
			return err
		}
		if len(v.(*pyval.List).Items) == 0 {
			return errors.New("at least one item is needed")
		}
		return nil
	}
}

func anything(pyval.Value) error { return nil }

func text(v pyval.Value) error {
	if _, ok := v.(pyval.Str); !ok {
		return wrongType("a string", v)
	}
	return nil
}

func boolean(v pyval.Value) error {
	if _, ok := v.(pyval.Bool); !ok {
		return wrongType("true or false", v)
	}
	return nil
}

func number(v pyval.Value) error {
	switch v.(type) {
	case pyval.Int, pyval.Float:
		return nil
	default:
		return wrongType("a number", v)
	}
}

func wrongType(want string, v pyval.Value) error {
	return fmt.Errorf("%s is needed, not a %s", want, pyval.TypeName(v))
}
