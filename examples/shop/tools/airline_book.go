package tools

import (
	"mulligan/examples/shop/pyval"
	"mulligan/examples/shop/store"
)

func bookReservation(tx *store.Tx, in args) (string, error) {
	user, err := find(tx, store.AirlineUsers, in["user_id"], "user not found")
	if err != nil {
		return "", err
	}
	reservation := newReservation(tx, in)
	flights, _ := reservation.Get("flights")
	price, err := bookingPrice(tx, flights, in)
	if err != nil {
		return "", err
	}
	if err := checkPayments(user, in["payment_methods"], price); err != nil {
		return "", err
	}
	if user, err = edit(tx, store.AirlineUsers, in["user_id"]); err != nil {
		return "", err
	}
	if err := pay(user, in["payment_methods"]); err != nil {
		return "", err
	}
	id := str(reservation, "reservation_id")
	tx.Put(store.AirlineReservations, id, reservation)
	booked, err := pyval.Item(user, "reservations")
	if err != nil {
		return "", err
	}
	if err := pyval.Append(booked, pyval.Str(id)); err != nil {
		return "", err
	}
	return pyval.Dumps(reservation), nil
}

// newReservation is the reservation as asked for, its flights not yet priced.
func newReservation(tx *store.Tx, in args) *pyval.Dict {
	return ordered(
		"reservation_id", pyval.Str(newReservationID(tx)),
		"user_id", in["user_id"],
		"origin", in["origin"],
		"destination", in["destination"],
		"flight_type", in["flight_type"],
		"cabin", in["cabin"],
		"flights", pyval.Clone(in["flights"]),
		"passengers", pyval.Clone(in["passengers"]),
		"payment_history", pyval.Clone(in["payment_methods"]),
		"created_at", pyval.Str("2024-05-15T15:00:00"),
		"total_baggages", in["total_baggages"],
		"nonfree_baggages", in["nonfree_baggages"],
		"insurance", in["insurance"],
	)
}

func newReservationID(tx *store.Tx) string {
	for _, id := range []string{"HATHAT", "HATHAU"} {
		if _, taken := tx.Get(store.AirlineReservations, id); !taken {
			return id
		}
	}
	return "HATHAV"
}

// bookingPrice fills in the flights and adds up what the booking costs.
func bookingPrice(tx *store.Tx, flights pyval.Value, in args) (pyval.Value, error) {
	legs, err := pyval.Iterate(flights)
	if err != nil {
		return nil, err
	}
	var total pyval.Value = pyval.NewInt(0)
	for _, leg := range legs {
		if total, err = addSeats(tx, total, leg, in["cabin"], in["passengers"]); err != nil {
			return nil, err
		}
	}
	if pyval.Equal(in["insurance"], pyval.Str("yes")) {
		insured, err := pyval.Len(in["passengers"])
		if err != nil {
			return nil, err
		}
		if total, err = pyval.Arith(pyval.AddTo, total, pyval.NewInt(30*int64(insured))); err != nil {
			return nil, err
		}
	}
	return addBaggage(total, in["nonfree_baggages"])
}

// addBaggage adds 50 for each piece. In Python 50 times a text or a list is a
// longer text or list, so for those it is the addition that fails.
func addBaggage(total, pieces pyval.Value) (pyval.Value, error) {
	fee := pieces
	switch pieces.(type) {
	case pyval.Str, *pyval.List:
	default:
		var err error
		if fee, err = pyval.Arith(pyval.Mul, pyval.NewInt(50), pieces); err != nil {
			return nil, err
		}
	}
	return pyval.Arith(pyval.AddTo, total, fee)
}

// addSeats fills in one flight at today's price and adds its seats to total.
func addSeats(tx *store.Tx, total, leg, cabin, passengers pyval.Value) (pyval.Value, error) {
	number, err := pyval.Item(leg, "flight_number")
	if err != nil {
		return nil, err
	}
	flight, err := find(tx, store.AirlineFlights, number, "flight "+pyval.Text(number)+" not found")
	if err != nil {
		return nil, err
	}
	day, err := dayOf(flight, leg, number)
	if err != nil {
		return nil, err
	}
	seats, err := pyval.Index(dict(day, "available_seats"), cabin)
	if err != nil {
		return nil, err
	}
	wanted, err := pyval.Len(passengers)
	if err != nil {
		return nil, err
	}
	if full, err := pyval.Less(seats, pyval.NewInt(int64(wanted))); err != nil {
		return nil, err
	} else if full {
		return nil, fail("not enough seats on flight %s", pyval.Text(number))
	}
	price, err := pyval.Index(dict(day, "prices"), cabin)
	if err != nil {
		return nil, err
	}
	fillIn(leg, price, flight)
	return addPrice(total, price, wanted)
}

// dayOf returns the entry of a flight for the date of leg, if it can be booked.
func dayOf(flight *pyval.Dict, leg, number pyval.Value) (*pyval.Dict, error) {
	date, err := pyval.Item(leg, "date")
	if err != nil {
		return nil, err
	}
	v, found, err := pyval.Lookup(dict(flight, "dates"), date)
	if err != nil {
		return nil, err
	}
	if !found {
		return nil, fail("flight %s not found on date %s", pyval.Text(number), pyval.Text(date))
	}
	day := v.(*pyval.Dict)
	if str(day, "status") != "available" {
		return nil, fail("flight %s not available on date %s", pyval.Text(number), pyval.Text(date))
	}
	return day, nil
}

// fillIn completes a flight of a reservation from a record that has a route.
func fillIn(leg, price pyval.Value, route *pyval.Dict) {
	// Only an object has a flight number, so leg is one.
	d, ok := leg.(*pyval.Dict)
	if !ok {
		return
	}
	d.Set("price", price)
	d.Set("origin", pyval.Str(str(route, "origin")))
	d.Set("destination", pyval.Str(str(route, "destination")))
}

func addPrice(total, price pyval.Value, seats int) (pyval.Value, error) {
	sum, err := pyval.Arith(pyval.Mul, price, pyval.NewInt(int64(seats)))
	if err != nil {
		return nil, err
	}
	return pyval.Arith(pyval.AddTo, total, sum)
}

// checkPayments fails unless each payment is possible and all add up to price.
func checkPayments(user *pyval.Dict, payments, price pyval.Value) error {
	list, err := pyval.Iterate(payments)
	if err != nil {
		return err
	}
	for _, payment := range list {
		if err := checkPayment(user, payment); err != nil {
			return err
		}
	}
	var paid pyval.Value = pyval.NewInt(0)
	for _, payment := range list {
		amount, err := pyval.Item(payment, "amount")
		if err != nil {
			return err
		}
		if paid, err = pyval.Arith(pyval.Add, paid, amount); err != nil {
			return err
		}
	}
	if !pyval.Equal(paid, price) {
		return fail("payment amount does not add up, total price is %s, but paid %s",
			pyval.Text(price), pyval.Text(paid))
	}
	return nil
}

func checkPayment(user *pyval.Dict, payment pyval.Value) error {
	id, err := pyval.Item(payment, "payment_id")
	if err != nil {
		return err
	}
	amount, err := pyval.Item(payment, "amount")
	if err != nil {
		return err
	}
	v, found, err := pyval.Lookup(dict(user, "payment_methods"), id)
	if err != nil {
		return err
	}
	if !found {
		return fail("payment method %s not found", pyval.Text(id))
	}
	for _, kind := range []string{"gift_card", "certificate"} {
		short, err := cannotPay(v.(*pyval.Dict), kind, "amount", amount)
		if err != nil {
			return err
		}
		if short {
			return fail("not enough balance in payment method %s", pyval.Text(id))
		}
	}
	return nil
}

// pay takes the amounts from gift cards and uses certificates up.
func pay(user *pyval.Dict, payments pyval.Value) error {
	methods := dict(user, "payment_methods")
	list, err := pyval.Iterate(payments)
	if err != nil {
		return err
	}
	for _, payment := range list {
		id, err := pyval.Item(payment, "payment_id")
		if err != nil {
			return err
		}
		amount, err := pyval.Item(payment, "amount")
		if err != nil {
			return err
		}
		// A certificate that was named twice is gone the second time.
		method, err := pyval.Index(methods, id)
		if err != nil {
			return err
		}
		switch record := method.(*pyval.Dict); str(record, "source") {
		case "gift_card":
			if err := change(record, "amount", pyval.SubFrom, amount); err != nil {
				return err
			}
		case "certificate":
			methods.Delete(pyval.Text(id))
		}
	}
	return nil
}
