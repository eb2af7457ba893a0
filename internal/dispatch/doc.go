// Package dispatch is the life of a call after its first failure, as a pure
// function: [Step] takes a record, a trigger and what was read, and gives a
// verdict; [Effects] and [AfterEnd] say what a written record demands of the
// world. There is no goroutine, clock, I/O or logger here, so that every
// order of events can be played through in a test. The coordinator
// (internal/coordination) reads, asks, writes, acts and acks around it, as
// protocol section 2 says.
//
// Whether a failed call is tried once more is decided in one place, retry.go.
//
// # The rows of protocol section 7
//
// A row whose rule is the machine's own has a script in testdata, named after
// it and played by the test TestP7_<row>. A row whose rule is about reading,
// writing and settling has its test where that is done; the scripts play it
// too, against a coordinator reduced to the order of its acts.
//
//	row  rule                                    decided by
//	1    trigger in the record                   Step: Repeat
//	2    the loser starts again                  coordination; script
//	3    n and w in the schedule's subject       Effects: Schedule
//	4    a full stream is not "already there"    adapter, coordination; script
//	5    ranks                                   standing
//	6    a full lane becomes a wait              PutOff
//	7    result before the message goes          AfterEnd: PurgeQueued; worker
//	8    a new n for each dispatch               advance
//	10   RESULTS outranks the record             Step: Close
//	12   record before the due dispatch          onDue, Effects: Publish
//	13   wait, then read                         Step: WaitFirst
//	17   a cancel claims the start               onCancel: ClaimFirst
//	18   ambiguity is sticky                     end
//	19   a correction needs to be alone          notAlone, ClaimFirst
//	20   the coordinator overrules               onDecision
//	21   answer-by is an answer                  onAnswerBy: PutAnswer
//	22   the ceiling holds for answers           onAnswer
//	23   the winner rules the run                AfterEnd: EndRun
//	24   settled closes the record               Step: Close
//	26   RUNS read again after the write         Effects: CheckRun
//	27   a replay is not applied                 replayed
//
// Rows 9, 11, 14 to 16, 25 and 28 are about workers and have their tests in
// pkg/worker. TestRandomOrdersKeepThePromises plays random orders of all of it
// with crashes, lapsed leases, stale reads and full streams.
package dispatch
