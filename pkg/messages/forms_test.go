package messages_test

import (
	"encoding/json"
	"time"

	"mulligan/pkg/messages"
)

// The examples share one story: a booking agent asks for a flight, gives the
// date in the wrong form, and the rules mend it.

const (
	callID    = "019ca8bb-b5c0-7c3a-9f00-5a1f0c2b7d10"
	otherCall = "019ca8bb-b5c1-7c3a-9f00-5a1f0c2b7d11"
	batchID   = "019ca8bb-b5b0-7aaa-8b1c-0123456789ab"
	worker    = "worker-7f3a"
	digest    = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
)

var (
	pool = messages.Pool{}
	run  = messages.NamedRun("trip/42")
	at   = time.Date(2026, 3, 1, 9, 30, 0, 250_000_000, time.UTC)
)

func exampleCall() messages.Call {
	return messages.Call{
		ID: callID, Ref: "toolu_01A", Run: run, Tool: "flights/book", Queue: "default", Lane: messages.LaneNormal,
		Effect: messages.Idempotent, Key: callID, Timeout: messages.Millis(30 * time.Second), Deadline: at.Add(10 * time.Minute),
		Task: "Book the cheapest flight to Zürich", Labels: messages.Labels{"customer": "C-9"},
		Trace: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
		Input: messages.Text(`{"to": "ZRH", "date": "1 March", "budget": 9007199254740993}`),
	}
}

func exampleFailure() messages.Failure {
	c := exampleCall()
	in := c.Input
	c.Input = messages.Body{}
	return messages.Failure{
		Version: "1", Call: c, Input: in, Output: messages.Text("date must be YYYY-MM-DD"), Code: messages.CodeToolError,
		Error: "date must be YYYY-MM-DD", Executed: true, Worker: worker, Started: at, Duration: messages.Millis(12 * time.Millisecond),
		Stderr: "parse date: bad month", At: at.Add(12 * time.Millisecond),
	}
}

func exampleCorrection() *messages.Correction {
	return &messages.Correction{
		Type: messages.InputFix, Description: "write the date as the tool asks for it",
		ModifiedInput: json.RawMessage(`{"to":"ZRH","date":"2026-03-01","budget":9007199254740993}`),
		Guidance:      new("Give dates as YYYY-MM-DD."),
	}
}

func jsonMessage(encode func() ([]byte, error)) func() (messages.Message, error) {
	return func() (messages.Message, error) {
		b, err := encode()
		return messages.Message{Body: b}, err
	}
}

// plain is a form whose body is JSON of the value itself.
func plain[T any](name, place string, v T) form {
	return form{
		name: name, place: place, value: v,
		encode: jsonMessage(func() ([]byte, error) { return json.Marshal(v) }),
		decode: func(m messages.Message) (any, error) {
			var back T
			return back, json.Unmarshal(m.Body, &back)
		},
	}
}

func story[T messages.Start | messages.Cancel | messages.Settled | messages.Answer | messages.Late | messages.Due](name, subject string, v T) form {
	return form{
		name: name, place: subject, value: v,
		encode: func() (messages.Message, error) { return messages.EncodeStory(subject, v) },
		decode: func(m messages.Message) (any, error) { return messages.DecodeStory[T](m.Body) },
	}
}

func service[T messages.OfferRequest | messages.OfferReply | messages.ChunkReply | messages.CancelRequest | messages.CancelReply | messages.AnswerRequest | messages.AnswerReply | messages.PolicyRequest | messages.PolicyReply | messages.BreakerRequest | messages.BreakerReply | messages.RunRequest | messages.RunReply | messages.QueueRequest | messages.QueueReply](name, place string, v T) form {
	return form{
		name: name, place: place, value: v,
		encode: jsonMessage(func() ([]byte, error) { return messages.EncodeService(v) }),
		decode: func(m messages.Message) (any, error) { return messages.DecodeService[T](m.Body) },
	}
}

func bucket(b messages.Bucket, key string) string { return pool.BucketName(b) + " " + key }

func forms() []form {
	call, failure := exampleCall(), exampleFailure()
	result := messages.Result{
		Call: callID, Ref: "toolu_01A", Run: run, Tool: "flights/book", Status: messages.Succeeded, Attempts: 2, Dispatch: 1,
		RecoveredBy: "input_fix (rules)", Worker: worker, Duration: messages.Millis(340 * time.Millisecond),
		Ended: at.Add(time.Second), Labels: messages.Labels{"customer": "C-9"}, Output: messages.Text(`{"booking": "Q7X9"}`),
	}
	refused := messages.Result{
		Call: callID, Run: messages.UnnamedRun(batchID), Tool: "report", Status: messages.Failed, Code: messages.CodeRecoveryGaveUp,
		IsError: true, Attempts: 1, Reason: "max retries (3) exceeded", Guidance: "The report is built at night; ask again after 06:00.",
		Worker: worker, Duration: messages.Millis(2 * time.Second), Ended: at,
		Output: messages.Body{Ref: &messages.PayloadRef{Digest: digest, Size: 700_000, Chunks: 2}},
	}
	decision := messages.Decision{
		Version: "1", Call: callID, Run: run, Action: messages.Retry(500 * time.Millisecond),
		Analysis: &messages.FailureAnalysis{
			IsRecoverable: true, RootCause: "the date is not in ISO form", Severity: messages.Medium,
			Correction: exampleCorrection(), Context: "rule format/date",
		},
		By: "rules", Rule: "format/date", Guidance: "flights/book failed: date must be YYYY-MM-DD (attempt 1 of 4). Give dates as YYYY-MM-DD.",
		MaxRetries: 3, Reflector: "reflector-1", At: at,
	}
	next := call
	next.Input, next.Attempt, next.Dispatch, next.Key, next.RecoveredBy = messages.Body{}, 1, 1, callID+"-1", "input_fix (rules)"
	record := messages.Record{
		Version: "1", N: 1, State: messages.Waiting, Trigger: messages.Trigger{Kind: messages.TriggerDecision},
		Call: next, Input: messages.Text(`{"to":"ZRH","date":"2026-03-01","budget":9007199254740993}`),
		DueAt: at.Add(2 * time.Second), DueReason: "retry", Spent: 1, Tried: []string{digest}, Causes: []string{"the date is not in ISO form"},
		Corrections: []messages.Application{{Type: messages.InputFix, Result: messages.CorrectionApplied, Rule: "format/date"}},
		Updated:     at,
	}
	chunk := messages.Chunk{
		Version: "1", Batch: batchID, Count: 2, By: "cli@host",
		Calls: []messages.Submission{
			{Call: callID, Ref: "toolu_01A", Run: "trip/42", Tool: "flights/book", Timeout: messages.Millis(30 * time.Second),
				Policy: json.RawMessage(`{"max_retries":1}`), Input: []byte(`{"to": "ZRH", "date": "1 March", "budget": 9007199254740993}`)},
			{Call: "019ca8bb-b5c1-7c3a-9f00-5a1f0c2b7d11", Tool: "echo", Lane: messages.LaneHigh, Input: []byte("{'not': json")},
		},
	}
	wish := messages.Cancel{Version: "1", Status: messages.Cancelled, Code: messages.CodeCancelled, Reason: "the traveller changed plans", By: "cli@host", At: at}
	tool := messages.ToolSpec{
		Name: "flights/book", Queue: "default", Description: "Books one flight.", Effect: messages.Idempotent, Timeout: messages.Millis(time.Minute), Version: "3",
		Schema: json.RawMessage(`{"type":"object","properties":{"to":{"type":"string"}},"required":["to"]}`),
	}
	policies := json.RawMessage(`{"pool":{"max_retries":2},"tools":{"flights/book":{"max_retries":0,"ask_user":"park"}}}`)
	policy := messages.PolicyEntry{Version: "1", Document: policies, By: "ops@host", At: at}
	probe := messages.ProbeOf(next)
	paused, inFlight := true, 20
	queued := messages.QueueSettings{Version: "1", Queue: "mail", Paused: true, InFlight: 20, Reason: "the mail server moves", By: "ops@host", At: at}
	seen := messages.CallsSeen{Version: "1", By: "coordinator-1", Calls: []messages.CallSeen{{Run: run, Call: callID, Same: "9f86d081884c7d65"}}}
	breaker := messages.Breaker{
		Version: "1", Tool: tool.Name, State: messages.BreakerHalfOpen, Mode: messages.BreakerFailFast, Failures: []string{callID},
		Opened: at.Add(-time.Minute), Until: at.Add(3 * time.Minute), Probe: &probe, Reset: messages.Millis(time.Minute), Trips: 2, Updated: at,
	}
	forced := messages.Breaker{
		Version: "1", Tool: tool.Name, State: messages.BreakerOpen, Mode: messages.BreakerFailFast, Opened: at, Until: at.Add(10 * time.Minute),
		Reset: messages.Millis(time.Minute), Trips: 3, By: "ops@host", Reason: "the airline moves its systems", Updated: at,
	}
	due := messages.Due{Version: "1", Kind: messages.DueRetry, Run: run, Call: callID, N: 1, At: at.Add(2 * time.Second)}
	cm, rm, fm := pool.EncodeCall(call), pool.EncodeResult(result), pool.EncodeResult(refused)
	keyed := messages.KeyEntry{Version: "1", Call: callID, Digest: "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08", At: at}
	denial := messages.Denial{Version: "1", Call: callID, Reason: "wrong customer", By: "ann@host", At: at}
	spec := messages.RunSpec{
		Labels: messages.Labels{"team": "travel"}, Policy: json.RawMessage(`{"max_retries":1}`), Budget: messages.RunBudget{Calls: 5000, Retries: 200, Tokens: 1_000_000, Cost: 2_500_000},
		InFlight: 100, Deadline: at.Add(6 * time.Hour), Expected: 4200, Webhook: "https://ops.example.com/runs", Origin: messages.NamedRun("nightly"),
		Keep: messages.Millis(24 * time.Hour),
	}
	count := int64(4200)
	declared := messages.RunEntry{
		Run: run, Created: at, By: "cli@host", Spec: &spec, From: 1207, Closed: &messages.RunClosed{At: at.Add(time.Minute), By: "cli@host", Calls: &count},
		Over: &messages.RunOver{At: at.Add(time.Hour), Notified: at.Add(time.Hour), RunCounts: messages.RunCounts{
			Calls: 4200, Outcomes: map[messages.Status]int64{messages.Succeeded: 4198, messages.Failed: 2}, Recovered: 31,
			Tools: map[string]map[messages.Status]int64{"flights/book": {messages.Succeeded: 4198, messages.Failed: 2}},
			First: at.Add(time.Second), Last: at.Add(time.Hour),
		}},
	}
	return []form{
		{name: "call", place: cm.Subject, value: call, encode: func() (messages.Message, error) { return cm, nil },
			decode: func(m messages.Message) (any, error) { return pool.DecodeCall(m) }},
		{name: "result", place: rm.Subject, value: result, encode: func() (messages.Message, error) { return rm, nil },
			decode: func(m messages.Message) (any, error) { return pool.DecodeResult(m) }},
		{name: "result_failed", place: fm.Subject, value: refused, encode: func() (messages.Message, error) { return fm, nil },
			decode: func(m messages.Message) (any, error) { return pool.DecodeResult(m) }},
		{name: "failure", place: pool.FailureSubject(run, callID, 0), value: failure, encode: func() (messages.Message, error) { return pool.EncodeFailure(failure) },
			decode: func(m messages.Message) (any, error) { return messages.DecodeFailure(m.Body) }},
		{name: "decision", place: pool.DecisionSubject(run, callID, 0), value: decision, encode: func() (messages.Message, error) { return pool.EncodeDecision(decision) },
			decode: func(m messages.Message) (any, error) { return messages.DecodeDecision(m.Body) }},
		story("start", pool.StartSubject(run, callID, 0), messages.Start{Version: "1", Token: "b1946ac9", Sequence: 1207, Delivery: 1, Worker: worker, At: at}),
		story("mark", pool.MarkSubject(run, callID, 1, 1), messages.Start{Version: "1", Token: "5d41402a", Sequence: 1311, Delivery: 1, Worker: worker, At: at}),
		story("tombstone", pool.StartSubject(run, callID, 0), messages.Start{Version: "1", Token: "cancel", Worker: "coordinator-2", Tombstone: "cancelled: the traveller changed plans", At: at}),
		story("cancel", pool.CancelSubject(run, callID), wish),
		story("settled", pool.SettledSubject(run, callID, 1), messages.Settled{Version: "1", By: worker, At: at}),
		story("answer", pool.AnswerSubject(run, callID, 2), messages.Answer{Version: "1", Kind: messages.AnswerEdit, Input: new(messages.Text(`{"to":"BSL"}`)), Reason: "Zürich is closed", By: "ops", At: at}),
		story("late", pool.LateSubject(run, callID, 0, "5d41402a"), messages.Late{Version: "1", Why: "the call had ended", Output: new(messages.Text(`{"booking": "Q7X8"}`)), Worker: worker, At: at}),
		story("due", pool.DueSubject(due), due),
		{name: "record", place: bucket(messages.BucketAttempts, messages.CallKey(run, callID)), value: record,
			encode: jsonMessage(func() ([]byte, error) { return messages.EncodeRecord(record) }),
			decode: func(m messages.Message) (any, error) { return messages.DecodeRecord(m.Body) }},
		plain("tool", bucket(messages.BucketTools, messages.ToolKey(tool.Name)), messages.Tool{Spec: tool, Registered: at}),
		plain("offer", bucket(messages.BucketTools, messages.OfferKey(worker)), messages.Offer{Worker: worker, Tools: []string{"flights/book"}, At: at}),
		plain("run", bucket(messages.BucketRuns, messages.RunKey(run)), messages.RunEntry{Run: run, Created: at, Ended: &wish}),
		plain("run_declared", bucket(messages.BucketRuns, messages.RunKey(run)), declared),
		plain("run_deleted", bucket(messages.BucketRuns, messages.RunKey(run)), messages.RunEntry{Run: run, Created: at,
			Delete: &messages.RunDelete{At: at.Add(time.Hour), By: "ops@host", Removed: &messages.RunRemoved{Results: 4200, Story: 181, Records: 33, Entries: 18, Payloads: 2}}}),
		plain("run_imported", bucket(messages.BucketRuns, messages.RunKey(run)), messages.RunEntry{Run: run, Created: at,
			Import: &messages.RunImport{At: at.Add(time.Hour), By: "ops@host", File: "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"}}),
		plain("batch", bucket(messages.BucketRuns, messages.BatchKey(batchID, 0)), messages.BatchEntry{Calls: []messages.BatchCall{{Call: callID, Run: run, Ref: "toolu_01A"}}, At: at}),
		plain("replay", bucket(messages.BucketRuns, messages.ReplayKey(callID, otherCall)), messages.Replay{Original: callID, Call: otherCall, Run: messages.NamedRun("replay-1"), By: "ops@host", At: at}),
		plain("control", bucket(messages.BucketControl, messages.ControlCallKey(run, callID)), wish),
		service("offer_request", pool.ServiceSubject(messages.EndpointOffer), messages.OfferRequest{Version: "1", Worker: worker, Tools: []messages.ToolSpec{tool}}),
		service("offer_reply", "reply", messages.OfferReply{Version: "1", Lease: messages.Millis(30 * time.Second)}),
		{name: "chunk", place: pool.ServiceSubject(messages.EndpointSubmit), value: chunk,
			encode: jsonMessage(func() ([]byte, error) { return messages.EncodeChunk(chunk) }),
			decode: func(m messages.Message) (any, error) { return messages.DecodeChunk(m.Body) }},
		service("chunk_reply", "reply", messages.ChunkReply{Version: "1", Refused: []messages.Refusal{{
			Call: "019ca8bb-b5c1-7c3a-9f00-5a1f0c2b7d11", Code: messages.CodeQueueFull, Text: "queue 'default' is full; try again in 2s", RetryAfter: messages.Millis(2 * time.Second),
		}}}),
		service("cancel_request", pool.ServiceSubject(messages.EndpointCancel), messages.CancelRequest{Version: "1", Run: run, Call: callID, Reason: "the traveller changed plans", By: "cli@host"}),
		service("cancel_reply", "reply", messages.CancelReply{Version: "1", Ended: messages.Succeeded}),
		service("answer_request", pool.ServiceSubject(messages.EndpointAnswer), messages.AnswerRequest{
			Version: "1", Run: run, Call: callID, Dispatch: 2, Kind: messages.AnswerEdit, Input: new(messages.Text(`{"to":"BSL"}`)), Reason: "Zürich is closed",
			By: "ann@host", Token: "0f8fad5b-d9cb-469f-a165-70867728950e",
		}),
		service("answer_reply", "reply", messages.AnswerReply{
			Version: "1", Error: "already answered: approve by ops at 2026-03-01T09:30:00Z", Code: messages.CodeAnswered,
			First: &messages.Answer{Version: "1", Kind: messages.AnswerApprove, By: "ops", At: at, Token: "7c9e6679-7425-40de-944b-e07fc1f90ae7"},
		}),
		{name: "key", place: bucket(messages.BucketRuns, messages.SubmitterKey("agents", "order-4711")), value: keyed,
			encode: jsonMessage(func() ([]byte, error) { return messages.EncodeKeyEntry(keyed) }),
			decode: func(m messages.Message) (any, error) { return messages.DecodeKeyEntry(m.Body) }},
		{name: "denial", place: bucket(messages.BucketControl, messages.DenialKey(run, "9b74c9897bac770ffc029102a200c5de")), value: denial,
			encode: jsonMessage(func() ([]byte, error) { return messages.EncodeDenial(denial) }),
			decode: func(m messages.Message) (any, error) { return messages.DecodeDenial(m.Body) }},
		service("policy_request", pool.ServiceSubject(messages.EndpointPolicy), messages.PolicyRequest{Version: "1", Document: policies, Expect: 41, By: "ops@host"}),
		service("policy_reply", "reply", messages.PolicyReply{Version: "1", Revision: 57}),
		{name: "policy", place: bucket(messages.BucketControl, messages.PolicyKey), value: policy,
			encode: jsonMessage(func() ([]byte, error) { return messages.EncodePolicies(policy) }),
			decode: func(m messages.Message) (any, error) { return messages.DecodePolicies(m.Body) }},
		{name: "breaker", place: bucket(messages.BucketControl, messages.BreakerKey(tool.Name)), value: breaker,
			encode: jsonMessage(func() ([]byte, error) { return messages.EncodeBreaker(breaker) }),
			decode: func(m messages.Message) (any, error) { return messages.DecodeBreaker(m.Body) }},
		service("breaker_request", pool.ServiceSubject(messages.EndpointBreaker), messages.BreakerRequest{Version: "1", Tool: tool.Name,
			Action: messages.BreakerForceOpen, For: messages.Millis(10 * time.Minute), Reason: forced.Reason, By: forced.By}),
		service("run_request", pool.ServiceSubject(messages.EndpointRun), messages.RunRequest{Version: "1", Run: run, Action: messages.RunDeclare, Spec: &spec, By: "cli@host"}),
		service("run_close", pool.ServiceSubject(messages.EndpointRun), messages.RunRequest{Version: "1", Run: run, Action: messages.RunClose, Calls: &count, By: "cli@host"}),
		service("run_delete", pool.ServiceSubject(messages.EndpointDelete), messages.RunRequest{Version: "1", Run: run, Action: messages.RunErase, By: "ops@host"}),
		service("run_reply", "reply", messages.RunReply{Version: "1", Error: `in_flight: run 'trip/42' was declared with 100`, Code: messages.CodeRunDiffers, Field: "in_flight"}),
		{name: "queue", place: bucket(messages.BucketControl, messages.QueueKey("mail")), value: queued,
			encode: jsonMessage(func() ([]byte, error) { return messages.EncodeQueueSettings(queued) }),
			decode: func(m messages.Message) (any, error) { return messages.DecodeQueueSettings(m.Body) }},
		service("queue_request", pool.ServiceSubject(messages.EndpointQueue), messages.QueueRequest{Version: "1", Queue: "mail", Pause: &paused,
			InFlight: &inFlight, Reason: queued.Reason, By: queued.By}),
		service("queue_reply", "reply", messages.QueueReply{Version: "1", Settings: &queued}),
		{name: "calls_seen", place: pool.PeerSubject(messages.PeerCalls), value: seen,
			encode: jsonMessage(func() ([]byte, error) { return messages.EncodeCallsSeen(seen) }),
			decode: func(m messages.Message) (any, error) { return messages.DecodeCallsSeen(m.Body) }},
		service("breaker_reply", "reply", messages.BreakerReply{Version: "1", Breaker: &forced}),
	}
}
