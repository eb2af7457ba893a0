package permissions_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"mulligan/internal/permissions"
)

// following is by a short-lived consumer: made, read from, removed.
func following() []operation {
	may := map[string]roles{"RESULTS": {c, s, v, h, o, imp}, "RUNS": {c}, "TOOLS": {c, r}, "CONTROL": {c, w, r}}
	var out []operation
	for _, st := range stores() {
		if st.name == "CALLS" || st.name == "SCHEDULE" {
			continue // work queues
		}
		out = append(out, operation{group: "Following", what: st.name, may: may[st.name], try: func(h hand) outcome {
			name := "r-" + strings.ReplaceAll(h.id(), "-", "")
			request := fmt.Sprintf(`{"stream_name":%q,"config":{"name":%q,"ack_policy":"none","mem_storage":true,"inactive_threshold":60000000000},"action":"create"}`, st.stream, name)
			for _, step := range []struct{ what, body string }{
				{"CREATE", request}, {"MSG.NEXT", `{"batch":1,"no_wait":true}`}, {"DELETE", ""},
			} {
				if got := h.api("$JS.API.CONSUMER."+step.what+"."+st.stream+"."+name, nil, step.body); got != worked {
					return got
				}
			}
			return worked
		}})
	}
	return out
}

func administering() []operation {
	const group = "Streams and consumers"
	var out []operation
	add := func(what, request, body string, may ...permissions.Role) {
		out = append(out, operation{group: group, what: what, may: may, try: func(h hand) outcome { return h.api("$JS.API."+request, nil, body) }})
	}
	add("look at the account", "INFO", "", c)
	add("look at RESULTS", "STREAM.INFO.MULLIGAN_RESULTS", "", c, w, s, v, h, o, imp)
	add("look at CALLS", "STREAM.INFO.MULLIGAN_CALLS", "", c)
	add("list the streams", "STREAM.LIST", "")
	add("list the consumers of RESULTS", "CONSUMER.LIST.MULLIGAN_RESULTS", "")
	for _, way := range []string{"CREATE", "UPDATE"} {
		out = append(out, operation{group: group, what: strings.ToLower(way) + " a stream of the pool", may: roles{c}, try: func(h hand) outcome {
			return h.api("$JS.API.STREAM."+way+".MULLIGAN_RESULTS", nil, h.configOf("$JS.API.STREAM.INFO.MULLIGAN_RESULTS"))
		}})
	}
	add("create a stream that copies RESULTS", "STREAM.CREATE.COPY", `{"name":"COPY","mirror":{"name":"MULLIGAN_RESULTS"}}`)
	out = append(out, operation{group: group, what: "create a consumer of a queue", may: roles{c}, try: func(h hand) outcome {
		config := h.configOf("$JS.API.CONSUMER.INFO.MULLIGAN_CALLS.mail-normal")
		return h.api("$JS.API.CONSUMER.CREATE.MULLIGAN_CALLS.mail-normal", nil, fmt.Sprintf(`{"stream_name":"MULLIGAN_CALLS","config":%s}`, config))
	}})
	add("create a consumer, in older forms of the request", "CONSUMER.DURABLE.CREATE.MULLIGAN_RESULTS.x", "{}")
	add("create a consumer without a name", "CONSUMER.CREATE.MULLIGAN_RESULTS", "{}")
	add("create a consumer with its filter in the request", "CONSUMER.CREATE.MULLIGAN_RESULTS.x.mulligan.result.>", "{}")
	add("delete the consumer of a queue", "CONSUMER.DELETE.MULLIGAN_CALLS.mail-normal", "")
	add("delete the consumer of the reflectors", "CONSUMER.DELETE.MULLIGAN_RECOVERY.reflector", "")
	add("pause the consumer of a queue", "CONSUMER.PAUSE.MULLIGAN_CALLS.mail-normal", `{"pause_until":"2000-01-01T00:00:00Z"}`, c)
	add("make another server lead RESULTS", "STREAM.LEADER.STEPDOWN.MULLIGAN_RESULTS", "")
	add("take a snapshot of RESULTS", "STREAM.SNAPSHOT.MULLIGAN_RESULTS", `{"deliver_subject":"x"}`)
	for _, st := range stores() {
		add("delete "+st.name, "STREAM.DELETE."+st.stream, "")
	}
	for _, st := range stores() {
		var may roles
		switch st.name {
		case "SCHEDULE", "RESULTS", "PAYLOADS", "ATTEMPTS":
			may = roles{c}
		}
		add("purge "+st.name, "STREAM.PURGE."+st.stream, `{"filter":"nothing.here"}`, may...)
	}
	for _, st := range stores() {
		var may roles
		if st.name == "CALLS" || st.name == "RECOVERY" {
			may = roles{c}
		}
		out = append(out, operation{group: group, what: "remove a message of " + st.name, may: may, try: func(h hand) outcome {
			return h.api("$JS.API.STREAM.MSG.DELETE."+st.stream, nil, fmt.Sprintf(`{"seq":%d,"no_erase":true}`, h.stored(st)))
		}})
	}
	return out
}

// stored is the sequence of a message that the admin has just stored.
func (b *broker) stored(st store) uint64 {
	b.t.Helper()
	m, err := b.admin.Request(st.write.in(b.as()), []byte("x"), patience)
	if err != nil {
		b.t.Fatal(err)
	}
	var seq uint64
	if _, rest, ok := strings.Cut(string(m.Data), `"seq":`); ok {
		_, _ = fmt.Sscan(strings.TrimRight(rest, "}"), &seq)
	}
	if seq == 0 {
		b.t.Fatalf("%s: %s", st.name, m.Data)
	}
	return seq
}

func inboxes() []operation {
	const group = "Inboxes"
	all := permissions.Roles()
	other := func(h hand) string {
		if h.name == "submitter" {
			return h.inbox["human"]
		}
		return h.inbox["submitter"]
	}
	var out []operation
	add := func(what string, may roles, try func(h hand) outcome) {
		out = append(out, operation{group: group, what: what, may: may, try: try})
	}
	add("read its own", all, func(h hand) outcome { return h.hears(h.inbox[h.name]+".>", "") })
	add("read that of another principal", nil, func(h hand) outcome { return h.hears(other(h)+".>", "") })
	add("read those of all", nil, func(h hand) outcome { return h.hears("_I.>", "") })
	add("read those of clients without a prefix", nil, func(h hand) outcome { return h.hears("_INBOX.>", "") })
	add("answer at that of another principal", roles{c}, func(h hand) outcome { return silent(h, other(h)+".x") })
	add("hear acks", nil, func(h hand) outcome { return h.hears("$JS.ACK.>", "") })
	add("hear the notices of JetStream", nil, func(h hand) outcome { return h.hears("$JS.EVENT.>", "") })
	add("hear the system", nil, func(h hand) outcome { return h.hears("$SYS.>", "") })
	return out
}

// around are ways past the lists: the server publishes the answer to a request
// to whatever subject the request names, and asks nobody whether it may. So who
// may read anything may have it stored anywhere.
func around(group string, may roles) []operation {
	// Copies has the answer to a read of a payload sent to a subject.
	copies := func(h hand, read, stream, subject string) outcome {
		h.t.Helper()
		payload := payloadPlace().in(h)
		h.must(payload, "chosen")
		request := fmt.Sprintf(`{"last_by_subj":%q}`, payload)
		if h.denies(func() error {
			return h.nc.PublishRequest("$JS.API."+read+".MULLIGAN_PAYLOADS", subject, []byte(request))
		}) {
			return denied
		}
		// The answer has been published when the next one to the same asker has come.
		_, _ = h.ask("$JS.API."+read+".MULLIGAN_PAYLOADS", nil, request)
		return h.arrival(stream, subject)
	}
	return []operation{
		{group: group, what: "have the answer to a read stored as a call", may: may, try: func(h hand) outcome {
			return copies(h, "STREAM.MSG.GET", "MULLIGAN_CALLS", callSubject(h, "mail"))
		}},
		{group: group, what: "have a payload stored in CONTROL as it is", may: may, try: func(h hand) outcome {
			return copies(h, "DIRECT.GET", "KV_MULLIGAN_CONTROL", "$KV.MULLIGAN_CONTROL.k."+h.id())
		}},
	}
}

// arrival looks for a message on a subject of a stream, often enough for one
// that is on its way.
func (h hand) arrival(stream, subject string) outcome {
	h.t.Helper()
	for range 50 {
		m, _ := h.as().ask("$JS.API.STREAM.MSG.GET."+stream, nil, fmt.Sprintf(`{"last_by_subj":%q}`, subject))
		if m != nil && strings.Contains(string(m.Data), `"message":`) {
			return worked
		}
	}
	return denied
}

// A user whose lists leave a subject out is denied it, and the test sees that.
func TestTheMatrixSeesWhatIsDenied(t *testing.T) {
	b := start(t, permissions.Config)
	w := hand{broker: b, name: "worker", nc: b.connect("worker")}
	if got := w.api("mulligan.decision.r."+b.id()+".0", nats.Header{}, "x"); got != denied {
		t.Errorf("a worker decides: %s", got)
	}
	if got := w.api("mulligan.result.r."+b.id(), nats.Header{}, "x"); got != worked {
		t.Errorf("a worker ends a call: %s", got)
	}
}
