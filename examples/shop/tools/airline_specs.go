package tools

import "mulligan/examples/shop/store"

// airlineTools returns the tools of the airline, by name.
func airlineTools() []definition {
	return byName(append(append(airlineReaders(), airlineWriters()...), sharedTools(Airline)...))
}

func reservationID() param {
	return param{"reservation_id", text("Id of the reservation, for example 'ZFA04Y'.")}
}

func paymentID() param {
	return param{"payment_id", text("Id of a payment method in the user's profile, for example 'credit_card_7815826'.")}
}

func cabinParam() param {
	return param{"cabin", oneOf("The cabin, the same for all flights.", "basic_economy", "economy", "business")}
}

func flightsParam(description string) param {
	return param{"flights", listOf(description, object(
		param{"flight_number", text("Flight number, for example 'HAT001'.")},
		param{"date", text("Date of the flight as YYYY-MM-DD.")},
	))}
}

func passengersParam() param {
	return param{"passengers", listOf("All passengers.", object(
		param{"first_name", text("First name.")},
		param{"last_name", text("Last name.")},
		param{"dob", text("Date of birth as YYYY-MM-DD.")},
	))}
}

func baggageParams() []param {
	return []param{
		{"total_baggages", whole("Number of all pieces of baggage.")},
		{"nonfree_baggages", whole("Number of those that are paid for.")},
	}
}

func searchParams() []param {
	return []param{
		{"origin", text("Airport of departure in three letters, for example 'JFK'.")},
		{"destination", text("Airport of arrival in three letters, for example 'LAX'.")},
		{"date", text("Date of departure as YYYY-MM-DD.")},
	}
}

func airlineReaders() []definition {
	return []definition{{
		domain: Airline, name: "get_reservation_details", effect: ReadOnly,
		description: "Show a reservation: flights, passengers, baggage and payments.",
		params:      []param{reservationID()},
		// The text names the user: a trap of the original that was kept.
		run: show(store.AirlineReservations, "reservation_id", "user not found"),
	}, {
		domain: Airline, name: "get_user_details", effect: ReadOnly,
		description: "Show a user's profile: address, payment methods, membership and reservations.",
		params:      []param{{"user_id", text("Id of the user, for example 'sara_doe_496'.")}},
		run:         show(store.AirlineUsers, "user_id", "user not found"),
	}, {
		domain: Airline, name: "list_all_airports", effect: ReadOnly,
		description: "List the codes of all airports with their cities.",
		run:         listAirports,
	}, {
		domain: Airline, name: "search_direct_flight", effect: ReadOnly,
		description: "Search the direct flights between two airports that can be booked on a date.",
		params:      searchParams(),
		run:         searchDirect,
	}, {
		domain: Airline, name: "search_onestop_flight", effect: ReadOnly,
		description: "Search connections of two flights between two airports that can be booked on a date.",
		params:      searchParams(),
		run:         searchOneStop,
	}}
}

func airlineWriters() []definition {
	userID := param{"user_id", text("Id of the user, for example 'sara_doe_496'.")}
	booking := []param{
		userID,
		{"origin", text("Airport of departure in three letters, for example 'SFO'.")},
		{"destination", text("Airport of arrival in three letters, for example 'JFK'.")},
		{"flight_type", oneOf("One way, or there and back.", "one_way", "round_trip")},
		cabinParam(),
		flightsParam("All flights, in the order they are flown."),
		passengersParam(),
		{"payment_methods", listOf("What pays how much; the amounts must add up to the price.", object(
			paymentID(), param{"amount", number("The amount.")},
		))},
	}
	booking = append(append(booking, baggageParams()...),
		param{"insurance", oneOf("Whether the passengers are insured.", "yes", "no")})
	return []definition{{
		domain: Airline, name: "book_reservation", effect: Unsafe,
		description: "Book flights for a user and pay for them. Each call books again.",
		params:      booking,
		run:         bookReservation,
	}, {
		domain: Airline, name: "cancel_reservation", effect: Unsafe,
		description: "Cancel a whole reservation and refund its payments.",
		params:      []param{reservationID()},
		run:         cancelReservation,
	}, {
		domain: Airline, name: "send_certificate", effect: Unsafe,
		description: "Give a user a certificate of an amount. Each call gives another one.",
		params:      []param{userID, {"amount", number("The amount of the certificate.")}},
		run:         sendCertificate,
	}, {
		domain: Airline, name: "update_reservation_baggages", effect: Unsafe,
		description: "Change the baggage of a reservation; further paid pieces are charged.",
		params:      append(append([]param{reservationID()}, baggageParams()...), paymentID()),
		run:         updateBaggages,
	}, {
		domain: Airline, name: "update_reservation_flights", effect: Unsafe,
		description: "Change the flights or the cabin of a reservation; the difference is charged or refunded.",
		params: []param{reservationID(), cabinParam(),
			flightsParam("All flights of the new reservation, those that stay as they are included."), paymentID()},
		run: updateFlights,
	}, {
		domain: Airline, name: "update_reservation_passengers", effect: Unsafe,
		description: "Change who travels on a reservation. The number of passengers stays the same.",
		params:      []param{reservationID(), passengersParam()},
		run:         updatePassengers,
	}}
}
