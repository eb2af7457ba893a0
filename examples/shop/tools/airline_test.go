package tools_test

import (
	"strings"
	"testing"
)

const booking = `{"user_id":"ada_sample_2001","origin":"SFO","destination":"SEA","flight_type":"one_way","cabin":"economy",` +
	`"flights":[{"date":"2024-05-21","flight_number":"MUL005"}],"passengers":[{"first_name":"A","last_name":"B","dob":"2000-01-01"}],` +
	`"payment_methods":[{"payment_id":"credit_card_2000001","amount":99}],"total_baggages":0,"nonfree_baggages":0,"insurance":"no"}`

func change(input string, pairs ...string) string {
	return strings.NewReplacer(pairs...).Replace(input)
}

func TestAirlineLookups(t *testing.T) {
	shop := smallShop(t, nil)
	if got, _ := shop.Call("r", "airline/get_reservation_details", []byte(`{"reservation_id":"NONE"}`)); got != "Error: user not found" {
		t.Errorf("an unknown reservation: %s", got)
	}
	airports := ok(t, shop, "r", "airline/list_all_airports", `{}`)
	if !strings.HasPrefix(airports, `{"SFO": "San Francisco", "JFK": "New York", `) || strings.Count(airports, ":") != 20 {
		t.Errorf("the airports are %s", airports)
	}
	const flight = `[{"flight_number": "MUL003", "origin": "SFO", "destination": "JFK", "scheduled_departure_time_est": "09:00:00", ` +
		`"scheduled_arrival_time_est": "17:30:00", "status": "available", ` +
		`"available_seats": {"basic_economy": 1, "economy": 2, "business": 3}, "prices": {"basic_economy": 150, "economy": 230, "business": 700}}]`
	if got := ok(t, shop, "r", "airline/search_direct_flight", `{"origin":"SFO","destination":"JFK","date":"2024-05-20"}`); got != flight {
		t.Errorf("the direct flight is %s", got)
	}
	for _, date := range []string{"2024-05-14", "2030-01-01"} {
		if got := ok(t, shop, "r", "airline/search_direct_flight", `{"origin":"SFO","destination":"DEN","date":"`+date+`"}`); got != "[]" {
			t.Errorf("on %s there is %s", date, got)
		}
	}
}

func TestOneStop(t *testing.T) {
	shop := smallShop(t, nil)
	same := ok(t, shop, "r", "airline/search_onestop_flight", `{"origin":"SFO","destination":"JFK","date":"2024-05-20"}`)
	expect(t, same, map[string]string{
		"0.0.flight_number": `"MUL001"`, "0.1.flight_number": `"MUL002"`, "0.1.date": `"2024-05-20"`,
	})
	// The second flight leaves on the 26th, yet what is shown of it is the 25th.
	next := ok(t, shop, "r", "airline/search_onestop_flight", `{"origin":"JFK","destination":"SEA","date":"2024-05-25"}`)
	expect(t, next, map[string]string{
		"0.0.date": `"2024-05-25"`, "0.1.date": `"2024-05-26"`,
		"0.1.available_seats": `{"basic_economy": 3, "economy": 3, "business": 3}`,
	})
	if got := ok(t, shop, "r", "airline/search_onestop_flight", `{"origin":"SFO","destination":"JFK","date":"2024-05-21"}`); got != "[]" {
		t.Errorf("with a cancelled second flight there is %s", got)
	}
}

func TestBook(t *testing.T) {
	shop := smallShop(t, nil)
	const tool = "airline/book_reservation"
	for _, c := range []struct{ from, to, want string }{
		{"ada_sample_2001", "nobody", "user not found"},
		{"MUL005", "MUL999", "flight MUL999 not found"},
		{"2024-05-21", "2024-06-01", "flight MUL005 not found on date 2024-06-01"},
		{`"MUL005"`, `"MUL002"`, "flight MUL002 not available on date 2024-05-21"},
		{`"2024-05-21","flight_number":"MUL005"`, `"2024-05-21","flight_number":"MUL001"},{"flight_number":"MUL001","date":"2024-05-20"`, "payment amount does not add up, total price is 230, but paid 99"},
		{`"economy"`, `"first"`, "'first'"},
		{`"flights":[{`, `"flights":["x",{`, "string indices must be integers, not 'str'"},
		{`"date":"2024-05-21",`, ``, "'date'"},
		{`credit_card_2000001`, `credit_card_9`, "payment method credit_card_9 not found"},
		{`credit_card_2000001`, `certificate_2000003`, "payment amount does not add up, total price is 99, but paid 999.5"},
		{`"amount":99`, `"amount":99.0,"x":1`, ""},
		{`"amount":99`, `"amount":"99"`, "unsupported operand type(s) for +: 'int' and 'str'"},
		{`"insurance":"no"`, `"insurance":"yes"`, "payment amount does not add up, total price is 129, but paid 99"},
		{`"nonfree_baggages":0`, `"nonfree_baggages":1.5`, "payment amount does not add up, total price is 174.0, but paid 99"},
		{`"nonfree_baggages":0`, `"nonfree_baggages":"1"`, "unsupported operand type(s) for +=: 'int' and 'str'"},
		{`"nonfree_baggages":0`, `"nonfree_baggages":null`, "unsupported operand type(s) for *: 'int' and 'NoneType'"},
	} {
		input := change(booking, c.from, c.to)
		if strings.Contains(c.want, "999.5") {
			input = change(booking, `[{"payment_id":"credit_card_2000001","amount":99}]`,
				`[{"payment_id":"certificate_2000003","amount":249.5},{"payment_id":"credit_card_2000001","amount":750}]`)
		}
		want := "Error: " + c.want
		got, isError := shop.Call("r "+c.to, tool, []byte(input))
		if c.want == "" {
			if isError {
				t.Errorf("%s: %s", c.to, got)
			}
			continue
		}
		if got != want {
			t.Errorf("%s: got %s, want %s", c.to, got, want)
		}
	}
}

func TestBookPaysAndNumbers(t *testing.T) {
	shop := smallShop(t, nil)
	const tool = "airline/book_reservation"
	first := ok(t, shop, "r", tool, change(booking, `[{"payment_id":"credit_card_2000001","amount":99}]`,
		`[{"payment_id":"certificate_2000003","amount":49},{"payment_id":"gift_card_2000002","amount":50}]`))
	expect(t, first, map[string]string{
		"reservation_id": `"HATHAT"`, "created_at": `"2024-05-15T15:00:00"`,
		// The order of the caller's keys stays.
		"flights": `[{"date": "2024-05-21", "flight_number": "MUL005", "price": 99, "origin": "SFO", "destination": "SEA"}]`,
	})
	for _, want := range []string{`"HATHAU"`, `"HATHAV"`, `"HATHAV"`} {
		expect(t, ok(t, shop, "r", tool, booking), map[string]string{"reservation_id": want})
	}
	user := ok(t, shop, "r", "airline/get_user_details", `{"user_id":"ada_sample_2001"}`)
	expect(t, user, map[string]string{
		"payment_methods.gift_card_2000002.amount": `100`,
		"reservations": `["MUL4A1", "HATHAT", "HATHAU", "HATHAV", "HATHAV"]`,
	})
	if strings.Contains(user, "certificate_2000003") {
		t.Error("the certificate is still there")
	}
	for from, want := range map[string]string{
		`[{"payment_id":"gift_card_2000002","amount":101}]`: "Error: not enough balance in payment method gift_card_2000002",
		// Found out only while paying; nothing must be left of it.
		`[{"payment_id":"gift_card_2000002","amount":9},{"payment_id":"certificate_3221322","amount":45},{"payment_id":"certificate_3221322","amount":45}]`: "Error: 'certificate_3221322'",
	} {
		ok(t, shop, "r", "airline/send_certificate", `{"user_id":"ada_sample_2001","amount":45}`)
		if got, _ := shop.Call("r", tool, []byte(change(booking, `[{"payment_id":"credit_card_2000001","amount":99}]`, from))); got != want {
			t.Errorf("%s: got %s", from, got)
		}
	}
	expect(t, ok(t, shop, "r", "airline/get_user_details", `{"user_id":"ada_sample_2001"}`), map[string]string{
		"payment_methods.gift_card_2000002.amount":   `100`,
		"payment_methods.certificate_3221322.amount": `45`,
	})
}

func TestCancelReservationRefundsEachTime(t *testing.T) {
	shop := smallShop(t, nil)
	const input = `{"reservation_id":"MUL5B2"}`
	expect(t, ok(t, shop, "r", "airline/cancel_reservation", input), map[string]string{
		"status":          `"cancelled"`,
		"payment_history": `[{"payment_id": "credit_card_2000004", "amount": 730}, {"payment_id": "credit_card_2000004", "amount": -730}]`,
	})
	expect(t, ok(t, shop, "r", "airline/cancel_reservation", input), map[string]string{
		"payment_history.2.amount": `-730`, "payment_history.3.amount": `730`,
	})
	if got, _ := shop.Call("r", "airline/cancel_reservation", []byte(`{"reservation_id":"x"}`)); got != "Error: reservation not found" {
		t.Errorf("an unknown reservation: %s", got)
	}
}

func TestUpdateFlights(t *testing.T) {
	shop := smallShop(t, nil)
	const tool = "airline/update_reservation_flights"
	const input = `{"reservation_id":"MUL4A1","cabin":"economy","flights":[{"flight_number":"MUL001","date":"2024-05-21"},{"flight_number":"MUL002","date":"2024-05-20"}],"payment_id":"gift_card_2000002"}`
	for _, c := range []struct{ from, to, want string }{
		{"MUL4A1", "NONE", "reservation not found"},
		{"gift_card_2000002", "certificate_2000003", "certificate cannot be used to update reservation"},
		{"gift_card_2000002", "credit_card_2000004", "payment method not found"},
		{`"cabin":"economy"`, `"cabin":"business"`, "gift card balance is not enough"},
		{`"cabin":"economy"`, `"cabin":"basic_economy"`, "not enough seats on flight MUL001"},
		{"2024-05-21", "2024-05-15", "flight MUL001 not available on date 2024-05-15"},
	} {
		if got, _ := shop.Call("r", tool, []byte(change(input, c.from, c.to))); got != "Error: "+c.want {
			t.Errorf("%s: got %s", c.to, got)
		}
	}
	expect(t, ok(t, shop, "r", tool, input), map[string]string{
		"flights.0.price": `110`, "flights.1.price": `140`, "cabin": `"economy"`,
		"payment_history.1": `{"payment_id": "gift_card_2000002", "amount": -20}`,
	})
	expect(t, ok(t, shop, "r", "airline/get_user_details", `{"user_id":"ada_sample_2001"}`), map[string]string{
		"payment_methods.gift_card_2000002.amount": `170`,
	})
	// In another cabin each flight has today's price; the cabin itself stays.
	expect(t, ok(t, shop, "s", tool, change(input, `"cabin":"economy"`, `"cabin":"business"`, "gift_card_2000002", "credit_card_2000001")), map[string]string{
		"cabin": `"economy"`, "flights.0.price": `280`, "flights.1.price": `410`, "payment_history.1.amount": `860`,
	})
}

func TestUpdateBaggagesAndPassengers(t *testing.T) {
	shop := smallShop(t, nil)
	const tool = "airline/update_reservation_baggages"
	expect(t, ok(t, shop, "r", tool, `{"reservation_id":"MUL4A1","total_baggages":4,"nonfree_baggages":3,"payment_id":"gift_card_2000002"}`), map[string]string{
		"total_baggages": `4`, "nonfree_baggages": `3`, "payment_history.1": `{"payment_id": "gift_card_2000002", "amount": 150}`,
	})
	if got, _ := shop.Call("r", tool, []byte(`{"reservation_id":"MUL4A1","total_baggages":4,"nonfree_baggages":4,"payment_id":"gift_card_2000002"}`)); got != "Error: gift card balance is not enough" {
		t.Errorf("an empty gift card: %s", got)
	}
	fewer := ok(t, shop, "r", tool, `{"reservation_id":"MUL4A1","total_baggages":1,"nonfree_baggages":0,"payment_id":"gift_card_2000002"}`)
	if strings.Count(fewer, "payment_id") != 2 {
		t.Errorf("fewer pieces changed the payments: %s", fewer)
	}
	const people = "airline/update_reservation_passengers"
	expect(t, ok(t, shop, "r", people, `{"reservation_id":"MUL5B2","passengers":[{"first_name":"New"}]}`), map[string]string{
		"passengers": `[{"first_name": "New"}]`,
	})
	if got, _ := shop.Call("r", people, []byte(`{"reservation_id":"MUL5B2","passengers":[]}`)); got != "Error: number of passengers does not match" {
		t.Errorf("fewer passengers: %s", got)
	}
}

func TestSendCertificate(t *testing.T) {
	shop := smallShop(t, nil)
	const tool = "airline/send_certificate"
	for i, want := range []string{
		"Certificate certificate_3221322 added to user bo_sample_2002 with amount 200.",
		"Certificate certificate_3221323 added to user bo_sample_2002 with amount 200.",
		"Certificate certificate_3221324 added to user bo_sample_2002 with amount 200.",
		"Error: the user holds all certificates that can be sent",
	} {
		if got, _ := shop.Call("r", tool, []byte(`{"user_id":"bo_sample_2002","amount":200}`)); got != want {
			t.Errorf("certificate %d: %s", i+1, got)
		}
	}
	if got := ok(t, shop, "s", tool, `{"user_id":"bo_sample_2002","amount":10.50}`); got != "Certificate certificate_3221322 added to user bo_sample_2002 with amount 10.5." {
		t.Errorf("an amount with a point: %s", got)
	}
}
