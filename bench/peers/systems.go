package main

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"
)

// system is one queue with one set of settings.
type system struct {
	Name string
	// Group is what an accepted job survives; figures are comparable within one.
	Group group
	// Results: each job stores a result, which is read by the submitter.
	Results bool
	// Settings are those that differ from what the system ships with.
	Settings string
	// Ended is how the submitter, or who measures, learns of the end of jobs.
	Ended string
	// needs are the programs beside this one.
	needs []program
	// wakes is how long its workers sleep, in the middle, before they see jobs.
	wakes time.Duration
	open  func(ctx context.Context, s *site) (session, error)
}

// group is a degree of durability.
type group string

const (
	inMemory group = "memory"      // a killed server loses it
	written  group = "written"     // it survives a killed server, not a power cut
	synced   group = "synced"      // it is synced to the disk before the submitter has its answer
	shipped  group = "as it ships" // whatever the defaults say
)

// session is a system that runs, with its workers, and nobody else does.
type session interface {
	// many makes n jobs ready. What it returns submits them all, and returns when
	// all have ended.
	many(n int) (func(ctx context.Context) error, error)
	// one submits a job and returns when the submitter knows that it has ended.
	one(ctx context.Context) error
	// pid is that of the server.
	pid() int
	close() error
}

// systems are all there are, in the order of the table.
func systems() []system {
	const (
		readBack = "each stored result of 1 KiB is read back by the submitter"
		natsFile = "nats-server: file storage, sync_interval 2 min (its default)"
		natsSync = "nats-server: file storage, sync_interval always"
		appended = "redis: save off, appendonly yes, appendfsync no; "
		async    = "postgresql: synchronous_commit off, " + postgresTuning + "; "
	)
	redis, postgres := []program{redisServer}, []program{postgresServer, initdb}
	all := []system{
		{Name: "JetStream alone", Group: written, Results: true, Settings: natsFile, Ended: readBack, open: openRaw(false)},
		{Name: "Mulligan", Group: written, Results: true, Settings: natsFile, Ended: readBack, open: openMulligan(false)},
		{Name: "asynq, tuned", Group: written, Results: true, Settings: appended + asynqTuning, needs: redis,
			open: openAsynq(asynqSettings{server: appending("no"), tuned: true, results: true})},
		{Name: "River, tuned", Group: written, Results: true, Settings: async + riverTuning, needs: postgres,
			open: openRiver(riverSettings{server: asynchronous(), tuned: true, results: true})},
		{Name: "asynq, tuned, no results", Group: written, Settings: appended + asynqTuning, needs: redis,
			open: openAsynq(asynqSettings{server: appending("no"), tuned: true})},
		{Name: "River, tuned, no results", Group: written, Settings: async + riverTuning, needs: postgres,
			open: openRiver(riverSettings{server: asynchronous(), tuned: true})},
		{Name: "asynq, in memory, no results", Group: inMemory, Settings: "redis: save off, appendonly no; " + asynqTuning, needs: redis,
			open: openAsynq(asynqSettings{server: []string{"--save", "", "--appendonly", "no"}, tuned: true})},
		{Name: "JetStream alone, synced", Group: synced, Results: true, Settings: natsSync, Ended: readBack, open: openRaw(true)},
		{Name: "Mulligan, synced", Group: synced, Results: true, Settings: natsSync, Ended: readBack, open: openMulligan(true)},
		{Name: "asynq, synced", Group: synced, Results: true, Settings: "redis: save off, appendonly yes, appendfsync always; " + asynqTuning, needs: redis,
			open: openAsynq(asynqSettings{server: appending("always"), tuned: true, results: true})},
		{Name: "River, synced", Group: synced, Results: true, Settings: "postgresql: fsync on, synchronous_commit on, " + postgresTuning + "; " + riverTuning, needs: postgres,
			open: openRiver(riverSettings{server: tunedPostgres(), tuned: true, results: true})},
		{Name: "asynq, default, no results", Group: shipped, needs: redis, wakes: time.Second,
			Settings: "redis: appendonly no, snapshots after a minute to an hour; asynq: TaskCheckInterval 1 s, so that a worker that found nothing sleeps half a second to one and a half, which is in the figures",
			open:     openAsynq(asynqSettings{})},
		{Name: "River, default, no results", Group: shipped, Settings: "postgresql: fsync on, synchronous_commit on; River: Insert, FetchCooldown 100 ms, 4 connections", needs: postgres,
			open: openRiver(riverSettings{})},
	}
	for i, s := range all {
		if s.Ended == "" {
			all[i].Ended = endOf(s)
		}
	}
	return all
}

// endOf is how the end is known, of asynq and River.
func endOf(s system) string {
	asynq := slices.Contains(s.needs, redisServer)
	switch {
	case asynq && s.Results:
		return "throughput: the queue is empty, then all kept results are listed, 1,000 at a time; latency: the submitter polls the inspector without pause until it has the kept result"
	case asynq:
		return "throughput: all handlers have returned and the queue is empty; latency: the submitter polls the inspector without pause until it has the kept result"
	case s.Group == shipped:
		return "the completed event, which comes after the row is updated, and only to the process that ran the job"
	default:
		return "throughput: the completed event, which comes after the row is updated, and only to the process that ran the job; latency: the worker tells the submitter, in the same process, when its transaction that completes the job is over"
	}
}

// guarantee is a row of the table that compares what is promised.
type guarantee struct {
	What      string `json:"what"`
	JetStream string `json:"jetstream"`
	Mulligan  string `json:"mulligan"`
	Asynq     string `json:"asynq"`
	River     string `json:"river"`
}

func guarantees() []guarantee {
	return []guarantee{
		{"stored before the submitter's answer", "yes, in the file", "yes, in the file, after the check against the tool's schema", "in Redis' memory; in its log with appendonly", "yes, in the transaction, also in one of your own"},
		{"synced to the disk before it", "no; with sync_interval always", "no; with sync_interval always", "no; with appendfsync always", "yes; not with synchronous_commit off"},
		{"result", "the program stores it", "stored before the job is gone, kept 3 days, exactly one a call", "kept if the handler writes it and the task has a retention", "kept in the row if the worker records it"},
		{"submitter learns of the end", "the program reads the results", "the stored result is pushed to it, also after a restart", "polls the inspector", "event in the process that ran it; others poll the row"},
		{"runs", "at least once", "at least once; unsafe tools at most once an attempt", "at least once", "at least once"},
		{"job of a killed worker", "given out again after the ack wait", "given out again after its lease (60 s), or ended as unknown where the effect may have happened", "given out again after its lease (30 s)", "rescued after an hour"},
		{"retries of failures", "after a nak, unchanged", "after an analysis: corrected, later, or not at all; 6 at the most", "unchanged, 25 with growing pauses", "unchanged, 25 with growing pauses"},
		{"duplicates of submissions", "message id within a window", "id of the call: accepted once while its result is kept", "TaskID; Unique for a given time", "unique by arguments, period, state"},
	}
}

// frame is what is around the text of a job.
const frame = `{"p":""}`

// text fills a job up to its size.
func text() string { return strings.Repeat("x", jobBytes-len(frame)) }

// input is the job of every system: JSON of jobBytes bytes.
func input() json.RawMessage { return json.RawMessage(`{"p":"` + text() + `"}`) }
