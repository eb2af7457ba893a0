package demo

import (
	"fmt"

	"mulligan/pkg/messages"
)

// Case is a call of the demo and what should become of it.
type Case struct {
	Call messages.Submission
	// Wrong says what is wrong with it; empty for a call that works.
	Wrong     string
	Expect    messages.Status
	Recovered bool // it succeeds, but not at once
}

// Cases are the calls of the demo, good and bad ones mixed as in life.
func Cases() []Case {
	good, bad := works(), fails()
	var out []Case
	for i, c := range good {
		out = append(out, c)
		if k := i * len(bad) / len(good); k < (i+1)*len(bad)/len(good) {
			out = append(out, bad[k])
		}
	}
	for i := range out {
		out[i].Call.Ref = fmt.Sprintf("demo-%02d", i+1)
		out[i].Call.Task = "plan a journey"
	}
	return out
}

func call(tool, input string) messages.Submission {
	return messages.Submission{Tool: tool, Input: []byte(input)}
}

func works() []Case {
	var out []Case
	add := func(tool, input string) {
		out = append(out, Case{Call: call(tool, input), Expect: messages.Succeeded})
	}
	for i, city := range []string{"Paris", "Oslo", "Lima", "Kyoto", "Cairo", "Quito"} {
		add("get_weather", fmt.Sprintf(`{"city":%q}`, city))
		add("convert_currency", fmt.Sprintf(`{"amount":%d,"from":"USD","to":"EUR"}`, 100*(i+1)))
		add("search_flights", fmt.Sprintf(`{"origin":"ZRH","destination":%q,"max_results":2}`, city))
	}
	for i, language := range []string{"French", "Norwegian", "Spanish"} {
		add("translate", fmt.Sprintf(`{"text":"where is the station","language":%q}`, language))
		add("get_order", fmt.Sprintf(`{"id":"O-10%d"}`, i))
	}
	return out
}

func fails() []Case {
	recovers := func(wrong, tool, input string) Case {
		return Case{Call: call(tool, input), Wrong: wrong, Expect: messages.Succeeded, Recovered: true}
	}
	ends := func(status messages.Status, wrong, tool, input string) Case {
		return Case{Call: call(tool, input), Wrong: wrong, Expect: status}
	}
	return []Case{
		recovers("a number in quotes", "search_flights", `{"origin":"ZRH","destination":"Oslo","max_results":"2"}`),
		recovers("a number in quotes", "convert_currency", `{"amount":"12.50","from":"GBP","to":"USD"}`),
		recovers("a misspelt parameter", "search_flights", `{"origin":"ZRH","destinaton":"Lima"}`),
		recovers("a misspelt parameter", "convert_currency", `{"amout":80,"from":"USD","to":"JPY"}`),
		recovers("an option in the wrong case", "search_flights", `{"origin":"ZRH","destination":"Cairo","cabin":"Economy"}`),
		recovers("an option in the wrong case", "convert_currency", `{"amount":5,"from":"usd","to":"EUR"}`),
		recovers("JSON with a comma too many", "get_weather", `{"city":"Hanoi",}`),
		recovers("JSON in single quotes", "translate", `{'text':'good morning','language':'Greek'}`),
		recovers("a server that was down for a moment", "get_weather", `{"city":"Reykjavik"}`),
		recovers("a server that was down for a moment", "get_weather", `{"city":"Bergen"}`),
		recovers("a tool that hung once", "get_weather", `{"city":"Nuuk"}`),
		recovers("a rate limit (wait 1 s)", "translate", `{"text":"thank you","language":"Icelandic"}`),
		ends(messages.Failed, "an order that does not exist", "get_order", `{"id":"O-99999"}`),
		ends(messages.Failed, "an order that does not exist", "get_order", `{"id":"O-7"}`),
		ends(messages.Failed, "a parameter that nobody can guess", "search_flights", `{"origin":"ZRH"}`),
		ends(messages.StatusUnknown, "a mail server that never answered", "send_email", `{"to":"board@example.com","subject":"minutes"}`),
		ends(messages.Refused, "a tool that does not exist", "get_wether", `{"city":"Rome"}`),
	}
}
