package permissions

import (
	"mulligan/pkg/messages"
)

// grants collects what one principal may do, in the words of what it does.
type grants struct {
	pool     messages.Pool
	pub, sub []string
}

func (g *grants) publish(subjects ...string)   { g.pub = append(g.pub, subjects...) }
func (g *grants) subscribe(subjects ...string) { g.sub = append(g.sub, subjects...) }

// writes allows the subjects of kinds, whatever the call.
func (g *grants) writes(kinds ...string) {
	for _, k := range kinds {
		g.publish(g.pool.Prefix() + "." + k + ".>")
	}
}

// requests allows to ask endpoints of the coordinators.
func (g *grants) requests(endpoints ...string) {
	for _, e := range endpoints {
		g.publish(g.pool.ServiceSubject(e))
	}
}

// api allows one request to JetStream, about each of the streams.
func (g *grants) api(request string, streams ...string) {
	for _, s := range streams {
		g.publish("$JS.API." + request + "." + s)
	}
}

// gets allows single messages, from the leader.
func (g *grants) gets(streams ...string) { g.api("STREAM.MSG.GET", streams...) }

// lists allows many messages at a time, from any replica; the leader says when
// there are no more.
func (g *grants) lists(streams ...string) {
	g.gets(streams...)
	g.api("DIRECT.GET", streams...)
}

// follows allows short-lived consumers. Their names are random, so the name
// cannot stand here; a filter in the subject of the request is not used.
func (g *grants) follows(streams ...string) {
	for _, s := range streams {
		g.api("CONSUMER.CREATE", s+".*")
		g.api("CONSUMER.MSG.NEXT", s+".*")
		g.api("CONSUMER.DELETE", s+".*")
	}
}

// takes allows to fetch from durable consumers of a stream and to settle what
// they hand over; consumer * stands for all.
func (g *grants) takes(s messages.Stream, consumers ...string) {
	for _, c := range consumers {
		name := g.pool.StreamName(s) + "." + c
		g.api("CONSUMER.MSG.NEXT", name)
		g.api("CONSUMER.INFO", name)
		g.publish("$JS.ACK." + name + ".>")
	}
}

func (g *grants) streams(of ...messages.Stream) []string {
	var out []string
	for _, s := range of {
		out = append(out, g.pool.StreamName(s))
	}
	return out
}

// bucketStreams are the names of the streams behind buckets.
func (g *grants) bucketStreams(of ...messages.Bucket) []string {
	var out []string
	for _, b := range of {
		out = append(out, "KV_"+g.pool.BucketName(b))
	}
	return out
}

func allStreams() []messages.Stream {
	return []messages.Stream{messages.StreamCalls, messages.StreamResults, messages.StreamRecovery, messages.StreamSchedule, messages.StreamPayloads}
}

func allBuckets() []messages.Bucket {
	return []messages.Bucket{messages.BucketAttempts, messages.BucketRuns, messages.BucketTools, messages.BucketControl}
}
