package tools

import (
	"fmt"

	"mulligan/examples/shop/pyval"
	"mulligan/examples/shop/store"
)

func reservationIn(tx *store.Tx, in args) (*pyval.Dict, error) {
	return find(tx, store.AirlineReservations, in["reservation_id"], "reservation not found")
}

func cancelReservation(tx *store.Tx, in args) (string, error) {
	if _, err := reservationIn(tx, in); err != nil {
		return "", err
	}
	reservation, err := edit(tx, store.AirlineReservations, in["reservation_id"])
	if err != nil {
		return "", err
	}
	history, err := pyval.Item(reservation, "payment_history")
	if err != nil {
		return "", err
	}
	refunds, err := refundsOf(history)
	if err != nil {
		return "", err
	}
	if err := pyval.Extend(history, refunds); err != nil {
		return "", err
	}
	// Neither the rules of the airline nor an earlier cancellation count: the
	// second call refunds a second time.
	reservation.Set("status", pyval.Str("cancelled"))
	return pyval.Dumps(reservation), nil
}

func refundsOf(history pyval.Value) ([]pyval.Value, error) {
	payments, err := pyval.Iterate(history)
	if err != nil {
		return nil, err
	}
	refunds := make([]pyval.Value, 0, len(payments))
	for _, payment := range payments {
		id, err := pyval.Item(payment, "payment_id")
		if err != nil {
			return nil, err
		}
		amount, err := pyval.Item(payment, "amount")
		if err != nil {
			return nil, err
		}
		if amount, err = pyval.Neg(amount); err != nil {
			return nil, err
		}
		refunds = append(refunds, ordered("payment_id", id, "amount", amount))
	}
	return refunds, nil
}

func updatePassengers(tx *store.Tx, in args) (string, error) {
	reservation, err := reservationIn(tx, in)
	if err != nil {
		return "", err
	}
	asked, err := pyval.Len(in["passengers"])
	if err != nil {
		return "", err
	}
	booked, err := passengersOf(reservation)
	if err != nil {
		return "", err
	}
	if asked != booked {
		return "", fail("number of passengers does not match")
	}
	if reservation, err = edit(tx, store.AirlineReservations, in["reservation_id"]); err != nil {
		return "", err
	}
	reservation.Set("passengers", in["passengers"])
	return pyval.Dumps(reservation), nil
}

// passengersOf counts the passengers of a reservation, which are whatever a
// booking gave.
func passengersOf(reservation *pyval.Dict) (int, error) {
	passengers, err := pyval.Item(reservation, "passengers")
	if err != nil {
		return 0, err
	}
	return pyval.Len(passengers)
}

func updateBaggages(tx *store.Tx, in args) (string, error) {
	reservation, err := reservationIn(tx, in)
	if err != nil {
		return "", err
	}
	price, err := baggagePrice(reservation, in["nonfree_baggages"])
	if err != nil {
		return "", err
	}
	if err := checkMethod(tx, reservation, in["payment_id"], price); err != nil {
		return "", err
	}
	if reservation, err = edit(tx, store.AirlineReservations, in["reservation_id"]); err != nil {
		return "", err
	}
	reservation.Set("total_baggages", in["total_baggages"])
	reservation.Set("nonfree_baggages", in["nonfree_baggages"])
	if err := charge(tx, reservation, in["payment_id"], price); err != nil {
		return "", err
	}
	return pyval.Dumps(reservation), nil
}

// baggagePrice is 50 for each paid piece that the reservation did not have; for
// fewer pieces nothing is paid back.
func baggagePrice(reservation *pyval.Dict, pieces pyval.Value) (pyval.Value, error) {
	had, err := pyval.Item(reservation, "nonfree_baggages")
	if err != nil {
		return nil, err
	}
	more, err := pyval.Arith(pyval.Sub, pieces, had)
	if err != nil {
		return nil, err
	}
	if some, err := pyval.Less(pyval.NewInt(0), more); err != nil {
		return nil, err
	} else if !some {
		more = pyval.NewInt(0)
	}
	return pyval.Arith(pyval.Mul, pyval.NewInt(50), more)
}

// checkMethod fails unless the method can pay for a change of the reservation.
func checkMethod(tx *store.Tx, reservation *pyval.Dict, id, price pyval.Value) error {
	user, err := owner(tx, store.AirlineUsers, reservation)
	if err != nil {
		return err
	}
	method, err := paymentMethod(user, id)
	if err != nil {
		return err
	}
	if str(method, "source") == "certificate" {
		return fail("certificate cannot be used to update reservation")
	}
	short, err := cannotPay(method, "gift_card", "amount", price)
	if err != nil {
		return err
	}
	if short {
		return fail("gift card balance is not enough")
	}
	return nil
}

// charge takes the price from a gift card and records it as a payment, unless
// it is zero.
func charge(tx *store.Tx, reservation *pyval.Dict, id, price pyval.Value) error {
	user, err := edit(tx, store.AirlineUsers, pyval.Str(str(reservation, "user_id")))
	if err != nil {
		return err
	}
	method, err := paymentMethod(user, id)
	if err != nil {
		return err
	}
	if str(method, "source") == "gift_card" {
		if err := change(method, "amount", pyval.SubFrom, price); err != nil {
			return err
		}
	}
	if pyval.Equal(price, pyval.NewInt(0)) {
		return nil
	}
	history, err := pyval.Item(reservation, "payment_history")
	if err != nil {
		return err
	}
	return pyval.Append(history, ordered("payment_id", id, "amount", price))
}

func updateFlights(tx *store.Tx, in args) (string, error) {
	reservation, err := reservationIn(tx, in)
	if err != nil {
		return "", err
	}
	flights := pyval.Clone(in["flights"])
	price, err := changePrice(tx, reservation, flights, in["cabin"])
	if err != nil {
		return "", err
	}
	if err := checkMethod(tx, reservation, in["payment_id"], price); err != nil {
		return "", err
	}
	if reservation, err = edit(tx, store.AirlineReservations, in["reservation_id"]); err != nil {
		return "", err
	}
	// The cabin of the reservation stays what it was, as in the original.
	reservation.Set("flights", flights)
	if err := charge(tx, reservation, in["payment_id"], price); err != nil {
		return "", err
	}
	return pyval.Dumps(reservation), nil
}

// changePrice fills in the new flights and returns what they cost more than the
// old ones. A flight that stays, in the same cabin, keeps its price.
func changePrice(tx *store.Tx, reservation *pyval.Dict, flights, cabin pyval.Value) (pyval.Value, error) {
	legs, err := pyval.Iterate(flights)
	if err != nil {
		return nil, err
	}
	passengers, err := pyval.Item(reservation, "passengers")
	if err != nil {
		return nil, err
	}
	var total pyval.Value = pyval.NewInt(0)
	for _, leg := range legs {
		kept, err := keptFlight(reservation, leg, cabin)
		if err != nil {
			return nil, err
		}
		if kept == nil {
			total, err = addSeats(tx, total, leg, cabin, passengers)
		} else {
			total, err = keepSeats(total, leg, kept, passengers)
		}
		if err != nil {
			return nil, err
		}
	}
	before, err := priceBefore(reservation, passengers)
	if err != nil {
		return nil, err
	}
	return pyval.Arith(pyval.SubFrom, total, before)
}

// keptFlight returns the reservation's flight that leg repeats, or nil.
func keptFlight(reservation *pyval.Dict, leg, cabin pyval.Value) (*pyval.Dict, error) {
	sameCabin := false
	if booked, ok := reservation.Get("cabin"); ok {
		sameCabin = pyval.Equal(booked, cabin)
	}
	var kept *pyval.Dict
	for _, flight := range flightsOf(reservation) {
		number, err := pyval.Item(leg, "flight_number")
		if err != nil {
			return nil, err
		}
		if !is(flight, "flight_number", number) {
			continue
		}
		date, err := pyval.Item(leg, "date")
		if err != nil {
			return nil, err
		}
		if kept == nil && sameCabin && is(flight, "date", date) {
			kept = flight
		}
	}
	return kept, nil
}

func keepSeats(total, leg pyval.Value, kept *pyval.Dict, passengers pyval.Value) (pyval.Value, error) {
	seats, err := pyval.Len(passengers)
	if err != nil {
		return nil, err
	}
	price, err := pyval.Item(kept, "price")
	if err != nil {
		return nil, err
	}
	fillIn(leg, price, kept)
	return addPrice(total, price, seats)
}

func priceBefore(reservation *pyval.Dict, passengers pyval.Value) (pyval.Value, error) {
	var sum pyval.Value = pyval.NewInt(0)
	for _, flight := range flightsOf(reservation) {
		price, err := pyval.Item(flight, "price")
		if err != nil {
			return nil, err
		}
		if sum, err = pyval.Arith(pyval.Add, sum, price); err != nil {
			return nil, err
		}
	}
	seats, err := pyval.Len(passengers)
	if err != nil {
		return nil, err
	}
	return pyval.Arith(pyval.Mul, sum, pyval.NewInt(int64(seats)))
}

// flightsOf returns the flights of a reservation. A booking without any may
// have left an empty object or text in their place, which holds none either.
func flightsOf(reservation *pyval.Dict) []*pyval.Dict {
	v, _ := reservation.Get("flights")
	items, err := pyval.Iterate(v)
	if err != nil {
		return nil
	}
	var flights []*pyval.Dict
	for _, item := range items {
		if flight, ok := item.(*pyval.Dict); ok {
			flights = append(flights, flight)
		}
	}
	return flights
}

// sendCertificate gives one of three ids; the data is about tasks that never
// need more.
func sendCertificate(tx *store.Tx, in args) (string, error) {
	if _, err := find(tx, store.AirlineUsers, in["user_id"], "user not found"); err != nil {
		return "", err
	}
	user, err := edit(tx, store.AirlineUsers, in["user_id"])
	if err != nil {
		return "", err
	}
	methods := dict(user, "payment_methods")
	for number := 3221322; number <= 3221324; number++ {
		id := fmt.Sprintf("certificate_%d", number)
		if _, taken := methods.Get(id); taken {
			continue
		}
		methods.Set(id, ordered("source", pyval.Str("certificate"), "amount", in["amount"], "id", pyval.Str(id)))
		return fmt.Sprintf("Certificate %s added to user %s with amount %s.",
			id, pyval.Text(in["user_id"]), pyval.Text(in["amount"])), nil
	}
	return "", fail("the user holds all certificates that can be sent")
}
