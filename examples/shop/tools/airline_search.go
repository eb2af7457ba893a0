package tools

import (
	"math/big"
	"strings"

	"mulligan/examples/shop/pyval"
	"mulligan/examples/shop/store"
)

func listAirports(*store.Tx, args) (string, error) {
	cities := &pyval.Dict{}
	for _, airport := range []struct{ code, city string }{
		{"SFO", "San Francisco"}, {"JFK", "New York"}, {"LAX", "Los Angeles"}, {"ORD", "Chicago"},
		{"DFW", "Dallas"}, {"DEN", "Denver"}, {"SEA", "Seattle"}, {"ATL", "Atlanta"},
		{"MIA", "Miami"}, {"BOS", "Boston"}, {"PHX", "Phoenix"}, {"IAH", "Houston"},
		{"LAS", "Las Vegas"}, {"MCO", "Orlando"}, {"EWR", "Newark"}, {"CLT", "Charlotte"},
		{"MSP", "Minneapolis"}, {"DTW", "Detroit"}, {"PHL", "Philadelphia"}, {"LGA", "LaGuardia"},
	} {
		cities.Set(airport.code, pyval.Str(airport.city))
	}
	return pyval.Dumps(cities), nil
}

func searchDirect(tx *store.Tx, in args) (string, error) {
	found := pyval.NewList()
	for _, flight := range tx.All(store.AirlineFlights) {
		if !is(flight, "origin", in["origin"]) || !is(flight, "destination", in["destination"]) {
			continue
		}
		day, err := bookable(flight, in["date"])
		if err != nil {
			return "", err
		}
		if day != nil {
			found.Items = append(found.Items, onDay(flight, day))
		}
	}
	return pyval.Dumps(found), nil
}

// searchOneStop joins any two flights of which the second departs no earlier
// than the first arrives, by the clock alone.
func searchOneStop(tx *store.Tx, in args) (string, error) {
	found := pyval.NewList()
	for _, first := range tx.All(store.AirlineFlights) {
		if !is(first, "origin", in["origin"]) {
			continue
		}
		for _, second := range tx.All(store.AirlineFlights) {
			if !is(second, "destination", in["destination"]) || str(first, "destination") != str(second, "origin") {
				continue
			}
			pair, err := connection(first, second, in["date"])
			if err != nil {
				return "", err
			}
			if pair != nil {
				found.Items = append(found.Items, pair)
			}
		}
	}
	return pyval.Dumps(found), nil
}

// connection returns two flights as a pair, or nil if they cannot be joined.
func connection(first, second *pyval.Dict, date pyval.Value) (*pyval.List, error) {
	arrival := str(first, "scheduled_arrival_time_est")
	secondDate := date
	if strings.Contains(arrival, "+1") {
		var err error
		if secondDate, err = dayAfter(date); err != nil {
			return nil, err
		}
	}
	if arrival > str(second, "scheduled_departure_time_est") {
		return nil, nil
	}
	firstDay, err := bookable(first, date)
	if err != nil || firstDay == nil {
		return nil, err
	}
	secondDay, err := bookable(second, secondDate)
	if err != nil || secondDay == nil {
		return nil, err
	}
	// What is shown of the second flight is the day of the first, also when it
	// departs a day later: an oddity of the original, and a KeyError where that
	// day is unknown.
	shown, err := pyval.Index(dict(second, "dates"), date)
	if err != nil {
		return nil, err
	}
	one, two := onDay(first, firstDay), onDay(second, shown.(*pyval.Dict))
	one.Set("date", date)
	two.Set("date", secondDate)
	return pyval.NewList(one, two), nil
}

// dayAfter counts the last two characters of a date up, in the month that the
// data is about.
func dayAfter(date pyval.Value) (pyval.Value, error) {
	tail, err := pyval.LastTwo(date)
	if err != nil {
		return nil, err
	}
	day, err := pyval.ParseInt(tail)
	if err != nil {
		return nil, err
	}
	next := new(big.Int).Add(day.Big(), big.NewInt(1))
	return pyval.Str("2024-05-" + next.String()), nil
}

// bookable returns a flight's entry for a date, or nil if there is none or it
// cannot be booked.
func bookable(flight *pyval.Dict, date pyval.Value) (*pyval.Dict, error) {
	v, found, err := pyval.Lookup(dict(flight, "dates"), date)
	if err != nil || !found {
		return nil, err
	}
	day := v.(*pyval.Dict)
	if str(day, "status") != "available" {
		return nil, nil
	}
	return day, nil
}

// onDay is a flight with the entry of one date in place of all dates.
func onDay(flight, day *pyval.Dict) *pyval.Dict {
	shown := &pyval.Dict{}
	for key, v := range flight.All() {
		if key != "dates" {
			shown.Set(key, v)
		}
	}
	for key, v := range day.All() {
		shown.Set(key, v)
	}
	return shown
}

func is(record *pyval.Dict, field string, v pyval.Value) bool {
	return pyval.Equal(pyval.Str(str(record, field)), v)
}
