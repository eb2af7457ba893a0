package permissions

import (
	"slices"

	"mulligan/pkg/messages"
)

// coordinator may write all of the pool but decisions, make its streams and
// consumers, and answer requests at the inbox of anybody. It deletes neither a
// stream nor a consumer.
func (g *grants) coordinator(inboxes string) {
	g.writes(messages.KindCall, messages.KindResult, messages.KindStart, messages.KindFailure, messages.KindAnswer,
		messages.KindSettled, messages.KindCancel, messages.KindLate, messages.KindSchedule, messages.KindPayload)
	for _, b := range allBuckets() {
		g.publish("$KV." + g.pool.BucketName(b) + ".>")
	}
	g.publish(inboxes+".>", "_R_.>", "$JS.API.INFO") // _R_: where who asks from another account hears the answer
	streams, buckets := g.streams(allStreams()...), g.bucketStreams(allBuckets()...)
	all := slices.Concat(streams, buckets)
	g.api("STREAM.INFO", all...)
	g.api("STREAM.CREATE", all...)
	g.api("STREAM.UPDATE", all...)
	g.lists(all...)
	g.api("STREAM.MSG.DELETE", g.streams(messages.StreamCalls, messages.StreamRecovery)...)
	g.api("STREAM.PURGE", g.streams(messages.StreamResults, messages.StreamSchedule, messages.StreamPayloads)...) // of a run that is deleted
	g.api("STREAM.PURGE", g.bucketStreams(messages.BucketAttempts)...)
	g.api("CONSUMER.CREATE", g.pool.StreamName(messages.StreamCalls)+".*",
		g.pool.StreamName(messages.StreamRecovery)+".*", g.pool.StreamName(messages.StreamSchedule)+".*")
	g.api("CONSUMER.PAUSE", g.pool.StreamName(messages.StreamCalls)+".*")
	g.takes(messages.StreamCalls, "*") // of queues that nobody serves any more
	g.takes(messages.StreamRecovery, messages.ConsumerDecisions, messages.ConsumerAnswers, messages.ConsumerCancels, messages.ConsumerSettled)
	g.api("CONSUMER.INFO", g.pool.StreamName(messages.StreamRecovery)+"."+messages.ConsumerReflector)
	g.takes(messages.StreamSchedule, messages.ConsumerDue)
	g.follows(g.bucketStreams(messages.BucketRuns, messages.BucketTools, messages.BucketControl)...)
	g.follows(g.pool.StreamName(messages.StreamResults))      // to count what came of a run, without the bodies
	g.subscribe(g.pool.ServiceSubject("*") + " coordinators") // only as one of their queue group
	g.writes(messages.KindPeer)
	g.subscribe(g.pool.PeerSubject("*"))
	// Of a gateway in the same process, which is a client like any other. It may
	// do nothing by it that a coordinator could not do by itself.
	g.requests(messages.EndpointSubmit, messages.EndpointCancel, messages.EndpointAnswer, messages.EndpointRun)
}

// worker may take calls of its queues, and write what came of any call: the
// subjects of outcomes name the call and not its queue.
func (g *grants) worker(queues []string) {
	g.writes(messages.KindResult, messages.KindStart, messages.KindFailure, messages.KindSettled, messages.KindLate, messages.KindPayload)
	g.requests(messages.EndpointOffer)
	consumers := []string{"*"}
	if len(queues) > 0 {
		consumers = nil
	}
	for _, q := range queues {
		for _, lane := range messages.Lanes() {
			consumers = append(consumers, g.pool.LaneConsumer(q, lane))
		}
	}
	g.takes(messages.StreamCalls, consumers...)
	g.api("STREAM.INFO", g.pool.StreamName(messages.StreamResults))
	g.gets(g.streams(messages.StreamResults, messages.StreamRecovery)...)
	g.lists(g.pool.StreamName(messages.StreamPayloads))
	g.lists(g.bucketStreams(messages.BucketTools)...)
	g.gets(g.bucketStreams(messages.BucketControl)...)
	g.follows(g.bucketStreams(messages.BucketControl)...)
}

// reflector may take failures and write decisions.
func (g *grants) reflector() {
	g.writes(messages.KindDecision)
	g.takes(messages.StreamRecovery, messages.ConsumerReflector)
	g.gets(g.pool.StreamName(messages.StreamResults))
	g.lists(g.streams(messages.StreamRecovery, messages.StreamPayloads)...)
	g.follows(g.bucketStreams(messages.BucketTools, messages.BucketControl)...)
}

// reads is what an observer may: look at everything, change nothing.
func (g *grants) reads() {
	g.api("STREAM.INFO", g.pool.StreamName(messages.StreamResults))
	g.lists(g.streams(allStreams()...)...)
	g.lists(g.bucketStreams(allBuckets()...)...)
	g.api("CONSUMER.INFO", g.pool.StreamName(messages.StreamCalls)+".*")
	g.follows(g.pool.StreamName(messages.StreamResults)) // counting a run reads the headers of its results
}

// asks is what each of those who read may do besides.
func (g *grants) asks(r Role) {
	if r == Submitter || r == Operator {
		g.requests(messages.EndpointSubmit, messages.EndpointCancel, messages.EndpointRun)
		g.subscribe(g.pool.LiveResultsFilter("*"))
	}
	if r == Human || r == Operator {
		g.requests(messages.EndpointAnswer)
	}
	if r != Observer { // inputs that are too large for a request
		g.writes(messages.KindPayload)
	}
	if r == Operator {
		g.requests(messages.EndpointPolicy, messages.EndpointBreaker, messages.EndpointQueue, messages.EndpointDelete)
	}
}

// importer may write results, stories and records as those who made them wrote
// them elsewhere, and so whatever it likes of any call. It queues none.
func (g *grants) importer() {
	g.writes(messages.KindResult, messages.KindStart, messages.KindFailure, messages.KindDecision, messages.KindAnswer,
		messages.KindSettled, messages.KindCancel, messages.KindLate, messages.KindPayload)
	for _, b := range []messages.Bucket{messages.BucketAttempts, messages.BucketRuns} {
		g.publish("$KV." + g.pool.BucketName(b) + ".>")
	}
}
