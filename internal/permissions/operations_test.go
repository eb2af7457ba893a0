package permissions_test

import (
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
)

func requests() []operation {
	const group = "Requests to coordinators"
	var out []operation
	for _, e := range []struct {
		endpoint string
		may      roles
	}{
		{"submit", roles{c, s, o}}, {"cancel", roles{c, s, o}}, {"offer", roles{w}}, {"answer", roles{c, h, o}}, {"run", roles{c, s, o}}, {"policy", roles{o}}, {"breaker", roles{o}}, {"queue", roles{o}}, {"delete", roles{o}},
	} {
		out = append(out, operation{group: group, what: e.endpoint, may: e.may, try: func(h hand) outcome {
			return h.api("mulligan.svc."+e.endpoint, nil, "{}")
		}})
	}
	return append(out,
		operation{group: group, what: "serve them, as one of the coordinators", may: roles{c}, try: func(h hand) outcome {
			return h.hears("mulligan.svc.submit", "coordinators")
		}},
		operation{group: group, what: "tell the coordinators what one took in", may: roles{c}, try: func(h hand) outcome {
			if h.denies(func() error { return h.nc.Publish("mulligan.peer.calls", nil) }) {
				return denied
			}
			return worked
		}},
		operation{group: group, what: "hear what the coordinators took in", may: roles{c}, try: func(h hand) outcome {
			return h.hears("mulligan.peer.calls", "")
		}},
		operation{group: group, what: "overhear them", try: func(h hand) outcome { return h.hears("mulligan.svc.submit", "") }},
	)
}

func callSubject(h hand, queue string) string {
	return "mulligan.call." + queue + ".normal.r." + h.id() + ".0"
}

func taking() []operation {
	const group = "Taking what waits"
	var out []operation
	for _, q := range []struct {
		queue, name string
		may, look   roles
	}{
		{"mail", "a queue of the worker", roles{c, w}, roles{c, w, s, v, h, o, imp}},
		{"bank", "another queue", roles{c}, roles{c, s, v, h, o, imp}},
	} {
		consumer := "MULLIGAN_CALLS." + q.queue + "-normal"
		out = append(out, operation{group: group, what: "fetch a call of " + q.name, may: q.may, try: func(h hand) outcome {
			h.must(callSubject(h, q.queue), "x")
			return h.api("$JS.API.CONSUMER.MSG.NEXT."+consumer, nil, `{"batch":1,"no_wait":true}`)
		}})
		for _, way := range []struct{ name, body string }{{"ack", "+ACK"}, {"give back", "-NAK"}, {"extend", "+WPI"}} {
			out = append(out, operation{group: group, what: way.name + " a call of " + q.name, may: q.may, try: func(h hand) outcome {
				return h.api(h.delivery(callSubject(h, q.queue), consumer), nil, way.body)
			}})
		}
		out = append(out, operation{group: group, what: "count what waits in " + q.name, may: q.look, try: func(h hand) outcome {
			return h.api("$JS.API.CONSUMER.INFO."+consumer, nil, "")
		}})
	}
	for _, q := range []struct {
		what, consumer, subject string
		may                     roles
	}{
		{"failures", "MULLIGAN_RECOVERY.reflector", "failure", roles{r}},
		{"decisions", "MULLIGAN_RECOVERY.coordinator-decisions", "decision", roles{c}},
		{"answers of humans", "MULLIGAN_RECOVERY.coordinator-answers", "answer", roles{c}},
		{"cancellations", "MULLIGAN_RECOVERY.coordinator-cancels", "cancel", roles{c}},
		{"notes of ends", "MULLIGAN_RECOVERY.coordinator-settled", "settled", roles{c}},
	} {
		out = append(out,
			operation{group: group, what: "fetch " + q.what, may: q.may, try: func(h hand) outcome {
				return h.api("$JS.API.CONSUMER.MSG.NEXT."+q.consumer, nil, `{"batch":1,"no_wait":true}`)
			}},
			operation{group: group, what: "ack " + q.what, may: q.may, try: func(h hand) outcome {
				return h.api(h.delivery("mulligan."+q.subject+".r."+h.id()+".0", q.consumer), nil, "+ACK")
			}})
	}
	return append(out, operation{group: group, what: "fetch what is due", may: roles{c}, try: func(h hand) outcome {
		return h.api("$JS.API.CONSUMER.MSG.NEXT.MULLIGAN_SCHEDULE.coordinator-due", nil, `{"batch":1,"no_wait":true}`)
	}})
}

// place is a subject to write to, new for each try.
type place struct {
	what string
	in   func(h hand) string
	may  roles
}

func storyPlace(what, kind string, may roles) place {
	return place{what, func(h hand) string { return "mulligan." + kind + ".r." + h.id() + ".0" }, may}
}

func payloadPlace() place {
	return place{"a payload", func(h hand) string { return "mulligan.payload." + h.id() + ".0" }, roles{c, w, s, h, o, imp}}
}

func resultPlace() place {
	return place{"a result", func(h hand) string { return "mulligan.result.r." + h.id() }, roles{c, w, imp}}
}

func callPlace() place {
	return place{"a call, in CALLS", func(h hand) string { return callSubject(h, "mail") }, roles{c}}
}

func bucketPlaces() []place {
	var out []place
	for i, b := range []string{"ATTEMPTS", "RUNS", "TOOLS", "CONTROL"} {
		may := roles{c}
		if i < 2 {
			may = roles{c, imp}
		}
		out = append(out, place{"a key of " + b, func(h hand) string { return "$KV.MULLIGAN_" + b + ".k." + h.id() }, may})
	}
	return out
}

func writing() []operation {
	places := []place{
		callPlace(), resultPlace(),
		storyPlace("a start", "start", roles{c, w, imp}), storyPlace("a failure", "failure", roles{c, w, imp}),
		storyPlace("a decision", "decision", roles{r, imp}), storyPlace("an answer", "answer", roles{c, imp}),
		storyPlace("a note of an end", "settled", roles{c, w, imp}), storyPlace("a cancellation", "cancel", roles{c, imp}),
		storyPlace("a late outcome", "late", roles{c, w, imp}), payloadPlace(),
		{"what is due, as if a schedule fired", func(h hand) string { return "mulligan.due.0" }, nil},
	}
	var out []operation
	for _, p := range append(places, bucketPlaces()...) {
		out = append(out, operation{group: "Writing", what: p.what, may: p.may, try: func(h hand) outcome { return h.api(p.in(h), nil, "x") }})
	}
	return append(out, operation{group: "Writing", what: "a result that was never stored, to who hears them live", try: func(h hand) outcome {
		return silent(h, "mulligan.live.result.r."+h.id())
	}})
}

// silent publishes where nobody answers.
func silent(h hand, subject string) outcome {
	if h.denies(func() error { return h.nc.Publish(subject, []byte("x")) }) {
		return denied
	}
	return worked
}

// rollups wipe a stream with one header, where the stream lets them.
func rollups() []operation {
	const group = "Wiping a stream with the rollup header"
	header := nats.Header{"Nats-Rollup": {"all"}}
	var out []operation
	add := func(what string, p place, refuses bool) {
		op := operation{group: group, what: what, may: p.may, try: func(h hand) outcome { return h.api(p.in(h), header, "x") }}
		if refuses {
			op.may, op.refused = nil, p.may
		}
		out = append(out, op)
	}
	add("CALLS", callPlace(), true)
	add("RESULTS", resultPlace(), true)
	add("RECOVERY, with a start", storyPlace("", "start", roles{c, w, imp}), true)
	add("RECOVERY, with a decision", storyPlace("", "decision", roles{r, imp}), true)
	add("PAYLOADS", payloadPlace(), true)
	add("SCHEDULE", storyPlace("", "sched.retry", roles{c}), false)
	for _, p := range bucketPlaces() {
		add(strings.TrimPrefix(p.what, "a key of "), p, false)
	}
	return out
}

// schedules have the server publish, whatever the publisher may.
func schedules() []operation {
	const group = "Schedules"
	at := func(h hand, subject, target string) outcome {
		return h.api(subject, nats.Header{
			"Nats-Schedule": {"@at " + time.Now().Add(time.Hour).UTC().Format(time.RFC3339Nano)}, "Nats-Schedule-Target": {target},
		}, "x")
	}
	out := []operation{
		{group: group, what: "in SCHEDULE, for what is due", may: roles{c}, try: func(h hand) outcome {
			return at(h, "mulligan.sched.retry.r."+h.id()+".0.0", "mulligan.due.0")
		}},
		{group: group, what: "in SCHEDULE, for a call", refused: roles{c}, try: func(h hand) outcome {
			return at(h, "mulligan.sched.retry.r."+h.id()+".0.0", callSubject(h, "mail"))
		}},
	}
	for _, p := range []place{callPlace(), resultPlace(), storyPlace("a start", "start", roles{c, w, imp}), storyPlace("a decision", "decision", roles{r, imp}), payloadPlace(), bucketPlaces()[3]} {
		out = append(out, operation{group: group, what: "with " + strings.TrimSuffix(p.what, ", in CALLS") + ", for a call", refused: p.may, try: func(h hand) outcome {
			return at(h, p.in(h), callSubject(h, "mail"))
		}})
	}
	return out
}

// store is a stream to read from.
type store struct {
	name, stream string
	write        place
	get, list    roles
}

func stores() []store {
	reads := roles{s, v, h, o, imp}
	with := func(more ...roles) roles {
		out := append(roles{c}, reads...)
		for _, m := range more {
			out = append(out, m...)
		}
		return out
	}
	out := []store{
		{"CALLS", "MULLIGAN_CALLS", callPlace(), with(), with()},
		{"RESULTS", "MULLIGAN_RESULTS", resultPlace(), with(roles{w, r}), with()},
		{"RECOVERY", "MULLIGAN_RECOVERY", storyPlace("", "start", nil), with(roles{w, r}), with(roles{r})},
		{"SCHEDULE", "MULLIGAN_SCHEDULE", storyPlace("", "sched.retry", nil), with(), with()},
		{"PAYLOADS", "MULLIGAN_PAYLOADS", payloadPlace(), with(roles{w, r}), with(roles{w, r})},
	}
	more := [][2]roles{{with(), with()}, {with(), with()}, {with(roles{w}), with(roles{w})}, {with(roles{w}), with()}}
	for i, p := range bucketPlaces() {
		name := strings.TrimPrefix(p.what, "a key of ")
		out = append(out, store{name, "KV_MULLIGAN_" + name, p, more[i][0], more[i][1]})
	}
	return out
}

func reading() []operation {
	const group = "Reading"
	var out []operation
	for _, st := range stores() {
		out = append(out,
			operation{group: group, what: "a message of " + st.name, may: st.get, try: func(h hand) outcome {
				subject := st.write.in(h)
				h.must(subject, "x")
				return h.api("$JS.API.STREAM.MSG.GET."+st.stream, nil, fmt.Sprintf(`{"last_by_subj":%q}`, subject))
			}},
			operation{group: group, what: "many of " + st.name + " at a time", may: st.list, try: func(h hand) outcome {
				return h.api("$JS.API.DIRECT.GET."+st.stream, nil, `{"seq":1,"next_by_subj":">","batch":1}`)
			}})
	}
	return append(out,
		operation{group: group, what: "a result by the subject of the request", try: func(h hand) outcome {
			return h.api("$JS.API.DIRECT.GET.MULLIGAN_RESULTS.mulligan.result.r."+h.id(), nil, "")
		}},
		operation{group: group, what: "results, as they are stored", may: roles{s, o}, try: func(h hand) outcome { return h.hears("mulligan.live.result.*.*", "") }},
		operation{group: group, what: "results, as they are sent", try: func(h hand) outcome { return h.hears("mulligan.result.>", "") }},
		operation{group: group, what: "calls, as they are sent", try: func(h hand) outcome { return h.hears("mulligan.call.>", "") }},
		operation{group: group, what: "changes of the buckets, as they are sent", try: func(h hand) outcome { return h.hears("$KV.>", "") }},
		operation{group: group, what: "everything", try: func(h hand) outcome { return h.hears(">", "") }},
	)
}
