package coordination_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"mulligan/internal/coordination"
	"mulligan/internal/memory"
	"mulligan/pkg/messages"
)

func TestRefusals(t *testing.T) {
	long := strings.Repeat("x", 600)
	for _, c := range []struct {
		name   string
		change func(*messages.Submission)
		code   messages.Code
		text   string
	}{
		{"no id", func(s *messages.Submission) { s.Call = "" }, messages.CodeBadCall, "call id"},
		{"no tool", func(s *messages.Submission) { s.Tool = "" }, messages.CodeBadCall, "tool is empty"},
		{"long run", func(s *messages.Submission) { s.Run = long }, messages.CodeBadCall, "run is 600 bytes"},
		{"long ref", func(s *messages.Submission) { s.Ref = long }, messages.CodeBadCall, "ref is 600 bytes"},
		{"lane of later dispatches", func(s *messages.Submission) { s.Lane = messages.LaneRetry }, messages.CodeBadCall, "lane retry"},
		{"labels", func(s *messages.Submission) { s.Labels = messages.Labels{"a": strings.Repeat("x", 3000)} }, messages.CodeBadCall, "labels take"},
		{"old id", func(s *messages.Submission) { s.Call = idAt(time.Now().Add(-37 * time.Hour)) }, messages.CodeTooOld, "submit it as a new call"},
		{"passed deadline", func(s *messages.Submission) { s.Deadline = time.Now().Add(-time.Second) }, messages.CodeDeadlinePassed, "has passed"},
		{"far deadline", func(s *messages.Submission) { s.Deadline = time.Now().Add(49 * time.Hour) }, messages.CodeBadCall, "too far ahead"},
		{"task", func(s *messages.Submission) { s.Task = strings.Repeat("x", 200<<10) }, messages.CodeTooLarge, "task is"},
		{"payload that is not there", func(s *messages.Submission) {
			s.Input, s.Payload = nil, &messages.PayloadRef{Digest: strings.Repeat("0", 64), Size: 1, Chunks: 1}
		}, messages.CodeBadCall, "upload it first"},
		{"S6 unknown tool", func(s *messages.Submission) { s.Tool = "get_ordr" }, messages.CodeUnknownTool, "tool 'get_ordr' is not available. Did you mean 'get_order'?"},
		{"S6 unknown tool, nothing near", func(s *messages.Submission) { s.Tool = "weather" }, messages.CodeUnknownTool, "tool 'weather' is not available"},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, r *rig) {
				r.coordinator()
				r.tool("t", messages.Idempotent)
				r.tool("get_order", messages.ReadOnly)
				bad, good := submission(c.change), submission(func(s *messages.Submission) { s.Ref = "sibling" })
				bad.Ref = max(bad.Ref, "mine")
				reply := r.send(messages.Chunk{Calls: []messages.Submission{bad, good}})
				if len(reply.Refused) != 1 || reply.Refused[0].Call != bad.Call || reply.Refused[0].Ref != bad.Ref {
					t.Fatalf("reply %+v", reply)
				}
				if f := reply.Refused[0]; f.Code != c.code || !strings.Contains(f.Text, c.text) || f.RetryAfter != 0 {
					t.Fatalf("refusal %+v, want %s %q", f, c.code, c.text)
				}
				if _, ok := r.queued(messages.NamedRun("r"), good.Call); !ok {
					t.Fatal("its sibling was not accepted")
				}
			})
		})
	}
}

func TestChunkThatCannotBeRead(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.coordinator()
		for request, code := range map[string]messages.Code{
			"":                messages.CodeBadCall,
			"{}":              messages.CodeVersion,
			`{"version":"2"}`: messages.CodeVersion,
			`{"version":"1"}`: messages.CodeBadCall,
			`{"version":"1","batch":"` + r.batch + `","count":1}` + "\n" + `{"call":`: messages.CodeBadCall,
		} {
			raw := must(r.admin.Request(t.Context(), messages.EndpointSubmit, []byte(request)))
			reply := must(messages.DecodeService[messages.ChunkReply](raw))
			if reply.Error == "" || reply.Code != code {
				t.Errorf("%q: %+v", request, reply)
			}
		}
	})
}

func TestS4_4_UnusableArgumentsAreAcceptedAsFailureOfAttempt0(t *testing.T) {
	schema := func(s *messages.ToolSpec) {
		s.Schema = json.RawMessage(`{"type":"object","properties":{"a":{"type":"integer"}},"required":["a"]}`)
	}
	for _, c := range []struct{ name, input, says string }{
		{"malformed", `{"a":1`, "not valid JSON"},
		{"no object", `[1]`, "must be a JSON object"},
		{"empty", ``, "they are empty"},
		{"breaks the schema", `{"a":"x"}`, "/a: must be integer"},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, r *rig) {
				r.coordinator()
				r.tool("t", messages.Unsafe, schema)
				s := submission(input(c.input))
				if reply := r.send(messages.Chunk{Calls: []messages.Submission{s}}); len(reply.Refused) > 0 {
					t.Fatalf("refused: %+v", reply)
				}
				run := messages.NamedRun("r")
				if _, ok := r.queued(run, s.Call); ok {
					t.Fatal("a call that cannot run is queued")
				}
				m := must(r.admin.Get(t.Context(), r.names.FailureSubject(run, s.Call, 0)))
				f := must(messages.DecodeFailure(m.Body))
				if f.Code != messages.CodeInvalidArguments || f.Executed || f.Ambiguous || string(f.Input.Inline) != c.input {
					t.Fatalf("failure %+v", f)
				}
				if !strings.Contains(f.Error, c.says) || string(f.Output.Inline) != f.Error {
					t.Fatalf("text %q, want %q", f.Error, c.says)
				}
				r.decide(f.Call, messages.Retry(0), correction(`{"a":1}`))
				synctest.Wait()
				c1 := r.wantQueued(f.Call, 1)
				if c1.Attempt != 1 || string(c1.Input.Inline) != `{"a":1}` {
					t.Fatalf("dispatch 1: %+v", c1)
				}
			})
		})
	}
}

func TestS5_2_UnusableArgumentsEndWithTheirText(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.coordinator()
		r.tool("t", messages.Unsafe)
		s := submission(input(`{"a":`))
		r.send(messages.Chunk{Calls: []messages.Submission{s}})
		c := messages.Call{ID: s.Call, Run: messages.NamedRun("r")}
		r.decide(c, messages.Fail("cannot be mended"))
		synctest.Wait()
		res := r.wantResult(c, messages.Failed, messages.CodeRecoveryGaveUp)
		if !strings.Contains(string(res.Output.Inline), "not valid JSON") || res.Attempts != 1 {
			t.Fatalf("result %+v", res)
		}
	})
}

func TestLargePartsGoIntoPayloads(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.coordinator()
		r.tool("t", messages.Idempotent)
		big := `{"s":"` + strings.Repeat("x", 200<<10) + `"}`
		task := strings.Repeat("t", 5<<10)
		c := r.accept(input(big), func(s *messages.Submission) { s.Task = task })
		if c.Input.Ref == nil || c.TaskRef == nil || c.Task != "" {
			t.Fatalf("call %+v", c)
		}
		if got := must(r.admin.GetPayload(t.Context(), *c.Input.Ref)); string(got) != big {
			t.Fatal("the input was changed")
		}
		if got := must(r.admin.GetPayload(t.Context(), *c.TaskRef)); string(got) != task {
			t.Fatal("the task was changed")
		}
		fixed := `{"s":"` + strings.Repeat("y", 130<<10) + `"}`
		r.fail(c)
		r.decide(c, messages.Retry(0), correction(fixed))
		synctest.Wait()
		c1 := r.wantQueued(c, 1)
		if c1.Input.Ref == nil {
			t.Fatal("a large correction travels inline")
		}
		if got := must(r.admin.GetPayload(t.Context(), *c1.Input.Ref)); string(got) != fixed {
			t.Fatal("the correction was changed")
		}
	})
}

func TestUploadedInputIsHeldAgainstTheSchema(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.coordinator()
		r.tool("t", messages.Idempotent)
		ref := must(r.admin.PutPayload(t.Context(), []byte(`no object`)))
		s := submission(func(s *messages.Submission) { s.Input, s.Payload = nil, &ref })
		r.send(messages.Chunk{Calls: []messages.Submission{s}})
		m := must(r.admin.Get(t.Context(), r.names.FailureSubject(messages.NamedRun("r"), s.Call, 0)))
		if f := must(messages.DecodeFailure(m.Body)); f.Input.Ref == nil || !strings.Contains(f.Error, "not valid JSON") {
			t.Fatalf("failure %+v", f)
		}
	})
}

// A chunk of many large uploads is answered in time: what is too much is to be
// sent again by itself.
func TestUploadsOfAChunkAreBounded(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.coordinator()
		r.tool("t", messages.Unsafe)
		ref := must(r.admin.PutPayload(t.Context(), []byte(`{"x":"`+strings.Repeat("x", 15<<20)+`"}`)))
		var calls []messages.Submission
		for range 6 {
			calls = append(calls, submission(func(s *messages.Submission) { s.Input, s.Payload = nil, &ref }))
		}
		reply := r.send(messages.Chunk{Calls: calls})
		if len(reply.Refused) != 2 {
			t.Fatalf("refused %+v", reply.Refused)
		}
		for _, refusal := range reply.Refused {
			if refusal.Code != messages.CodeNotStored || refusal.RetryAfter <= 0 || !strings.Contains(refusal.Text, "chunks of their own") {
				t.Errorf("%+v", refusal)
			}
		}
	})
}

func TestP7_11_RepetitionsSayThatTheyAre(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.coordinator()
		r.tool("t", messages.Idempotent)
		old := idAt(time.Now().Add(-2 * time.Minute))
		if c := r.accept(func(s *messages.Submission) { s.Call = old }); !c.Repeat {
			t.Fatal("an id of two minutes ago is not marked")
		}
		future := idAt(time.Now().Add(5 * time.Minute))
		if c := r.accept(func(s *messages.Submission) { s.Call = future }); !c.Repeat {
			t.Fatal("an id whose clock cannot be trusted is not marked")
		}
		s := submission()
		chunk := messages.Chunk{Calls: []messages.Submission{s}}
		r.send(chunk)
		run := messages.NamedRun("r")
		c, _ := r.queued(run, s.Call)
		if c.Repeat {
			t.Fatal("a first copy is marked")
		}
		frozen := messages.Chunk{Calls: []messages.Submission{submission()}, RepeatAt: time.Now().Add(time.Second)}
		r.send(frozen)
		if c, _ := r.queued(run, frozen.Calls[0].Call); c.Repeat {
			t.Fatal("a copy that came in time is marked")
		}
		frozen.Calls = []messages.Submission{submission()}
		pass(time.Second)
		r.send(frozen)
		if c, _ := r.queued(run, frozen.Calls[0].Call); !c.Repeat {
			t.Fatal("a copy that is read when its sender has repeated it is not marked")
		}
		chunk.Repeat = true
		if reply := r.send(chunk); len(reply.Refused) > 0 {
			t.Fatalf("a repetition is refused: %+v", reply)
		}
		r.done(c)
		r.send(chunk)
		if c, ok := r.queued(run, s.Call); !ok || !c.Repeat {
			t.Fatalf("the repetition after the first copy was done: %v %+v", ok, c)
		}
	})
}

func TestP7_11_LostAnswerOfThePublishMarksTheNextTry(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		m := r.coordinator()
		r.tool("t", messages.Idempotent)
		m.broker.Fail(memory.OpPublish, ">", 1, errors.New("no answer"))
		if c := r.accept(); !c.Repeat {
			t.Fatal("the second try is not marked")
		}
	})
}

func TestCallThatCannotBeStoredIsRefusedWithAWayOut(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		m := r.coordinator()
		r.tool("t", messages.Idempotent)
		m.broker.Fail(memory.OpPublish, ">", -1, errors.New("no answer"))
		reply := r.send(messages.Chunk{Calls: []messages.Submission{submission()}})
		if len(reply.Refused) != 1 || reply.Refused[0].Code != messages.CodeNotStored || reply.Refused[0].RetryAfter == 0 {
			t.Fatalf("reply %+v", reply)
		}
		m.broker.Heal()
		r.admin.SetFull(messages.StreamCalls, true)
		reply = r.send(messages.Chunk{Calls: []messages.Submission{submission()}})
		if len(reply.Refused) != 1 || reply.Refused[0].Code != messages.CodeQueueFull || reply.Refused[0].RetryAfter == 0 {
			t.Fatalf("reply %+v", reply)
		}
		r.admin.SetFull(messages.StreamCalls, false)
		r.admin.SetFull(messages.StreamRecovery, true)
		reply = r.send(messages.Chunk{Calls: []messages.Submission{submission(input("{"))}})
		if len(reply.Refused) != 1 || reply.Refused[0].Code != messages.CodeQueueFull {
			t.Fatalf("reply %+v", reply)
		}
	})
}

func TestDeadlineIsScheduledBeforeTheCallIsQueued(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		m := r.coordinator()
		r.tool("t", messages.Idempotent)
		m.broker.Fail(memory.OpSchedule, ">", 1, errors.New("no answer"))
		s := submission(func(s *messages.Submission) { s.Deadline = time.Now().Add(time.Minute) })
		reply := r.send(messages.Chunk{Calls: []messages.Submission{s}})
		if len(reply.Refused) != 1 || reply.Refused[0].Code != messages.CodeNotStored {
			t.Fatalf("reply %+v", reply)
		}
		if _, ok := r.queued(messages.NamedRun("r"), s.Call); ok {
			t.Fatal("queued without a deadline")
		}
	})
}

func TestQueueFullIsToldByACountThatIsAtMostASecondOld(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		m := r.coordinator(func(c *coordination.Config) { c.MaxQueued = 5 })
		r.tool("t", messages.Idempotent)
		var calls []messages.Submission
		for range 8 {
			calls = append(calls, submission())
		}
		reply := r.send(messages.Chunk{Calls: calls})
		if len(reply.Refused) != 3 {
			t.Fatalf("%d of 8 are refused: %+v", len(reply.Refused), reply)
		}
		f := reply.Refused[0]
		if f.Code != messages.CodeQueueFull || f.RetryAfter == 0 || !strings.Contains(f.Text, "queue 'q' is full") {
			t.Fatalf("refusal %+v", f)
		}
		if n := m.broker.Count(memory.OpBacklog, ">"); n != len(messages.Lanes()) {
			t.Fatalf("%d counts for one chunk", n)
		}
		if err := r.admin.Purge(t.Context(), r.names.QueueFilter("q")); err != nil {
			t.Fatal(err)
		}
		if reply := r.send(messages.Chunk{Calls: calls[:1]}); len(reply.Refused) != 1 {
			t.Fatal("the count was read again within a second")
		}
		pass(time.Second)
		if reply := r.send(messages.Chunk{Calls: calls[:1]}); len(reply.Refused) != 0 {
			t.Fatalf("there is room again: %+v", reply)
		}
	})
}

func TestBatchIsListedOneWriteAChunk(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		m := r.coordinator()
		r.tool("t", messages.Idempotent)
		var calls []messages.Submission
		for i := range 5 {
			calls = append(calls, submission(func(s *messages.Submission) { s.Ref = fmt.Sprint(i) }))
		}
		bad := submission(func(s *messages.Submission) { s.Tool = "none" })
		r.send(messages.Chunk{Calls: append(calls[:3:3], bad)})
		if n := m.broker.Count(memory.OpPut, "RUNS.>"); n != 1 {
			t.Fatalf("%d writes", n)
		}
		r.send(messages.Chunk{Repeat: true, Calls: calls})
		e := must(r.admin.Load(t.Context(), messages.BucketRuns, messages.BatchKey(r.batch, 0)))
		var entry messages.BatchEntry
		if err := json.Unmarshal(e.Value, &entry); err != nil || len(entry.Calls) != 5 {
			t.Fatalf("entry %+v, %v", entry, err)
		}
	})
}

// Calls that are submitted one by one are listed together, soon; the first of a
// batch at once, and the rest before a coordinator stops.
func TestSmallChunksAreListedTogether(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		m := r.coordinator()
		r.tool("t", messages.Idempotent)
		send := func(chunk int) {
			t.Helper()
			if reply := r.send(messages.Chunk{Index: chunk, Calls: []messages.Submission{submission()}}); len(reply.Refused) > 0 {
				t.Fatalf("%+v", reply)
			}
		}
		listed := func(chunk, want int) {
			t.Helper()
			var entry messages.BatchEntry
			e, err := r.admin.Load(t.Context(), messages.BucketRuns, messages.BatchKey(r.batch, chunk))
			if err == nil {
				err = json.Unmarshal(e.Value, &entry)
			}
			if want == 0 && errors.Is(err, messages.ErrNotFound) {
				return
			}
			if err != nil || len(entry.Calls) != want {
				t.Errorf("chunk %d lists %d calls, %v; want %d", chunk, len(entry.Calls), err, want)
			}
		}
		send(0)
		listed(0, 1)
		for _, chunk := range []int{2, 1, 3} {
			send(chunk)
		}
		listed(1, 0)
		pass(time.Second)
		listed(1, 3)
		listed(2, 0)
		m.broker.ResetCounts()
		for chunk := range 64 {
			send(10 + chunk)
		}
		if n := m.broker.Count(memory.OpPut, "RUNS.>"); n != 1 {
			t.Errorf("%d writes for 64 chunks", n)
		}
		listed(10, 64)
		send(100)
		listed(100, 0)
		m.stop()
		listed(100, 1)
	})
}

func TestSuccessPathCostsOnePublish(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		m := r.coordinator()
		r.tool("t", messages.Idempotent)
		r.accept()
		m.broker.ResetCounts()
		r.many(256)
		for op, most := range map[memory.Op]int{memory.OpPublish: 256, memory.OpPut: 1, memory.OpSave: 0, memory.OpLoad: 0, memory.OpGet: 0, memory.OpPutOnce: 0, memory.OpSchedule: 0} {
			if n := m.broker.Counts()[op]; n > most {
				t.Errorf("%d operations %q for 256 calls, want at most %d", n, op, most)
			}
		}
	})
}

func TestToolRegisteredThroughAnotherCoordinatorIsFoundAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		m := r.coordinator()
		b := must(json.Marshal(messages.Tool{Spec: messages.ToolSpec{Name: "late", Queue: "q", Effect: messages.ReadOnly}}))
		if err := r.admin.EnsureQueue(t.Context(), "q"); err != nil {
			t.Fatal(err)
		}
		m.broker.Freeze() // its watch sees nothing yet
		if err := r.admin.Put(t.Context(), messages.BucketTools, messages.ToolKey("late"), b, 0); err != nil {
			t.Fatal(err)
		}
		m.broker.Thaw()
		if c := r.accept(func(s *messages.Submission) { s.Tool = "late" }); c.Effect != messages.ReadOnly {
			t.Fatalf("call %+v", c)
		}
	})
}

func TestInputTravelsByteForByte(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.coordinator()
		r.tool("t", messages.Idempotent)
		raw := []byte(`{"n":12345678901234567890.10, "s" : "\u0041<&>", "a":1,"a":2}`)
		if c := r.accept(func(s *messages.Submission) { s.Input = raw }); !bytes.Equal(c.Input.Inline, raw) {
			t.Fatalf("input %s", c.Input.Inline)
		}
	})
}

func TestRepetitionAfterTheToolMovedMeetsItsFirstCopy(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.coordinator()
		r.offer(offerOf("w1", spec("t")))
		s := submission()
		chunk := messages.Chunk{Calls: []messages.Submission{s}}
		r.send(chunk)
		pass(time.Second)
		r.offer(messages.OfferRequest{Worker: "w1", Withdraw: true})
		moved := offerOf("w2", spec("t", func(s *messages.ToolSpec) { s.Queue = "q2" }))
		moved.Replace = true
		if reply := r.offer(moved); reply.Error != "" {
			t.Fatal(reply.Error)
		}
		chunk.Repeat = true
		if reply := r.send(chunk); len(reply.Refused) > 0 {
			t.Fatalf("refused: %+v", reply)
		}
		copies := 0
		err := r.admin.List(t.Context(), messages.StreamCalls, []string{r.names.CallFilter(messages.NamedRun("r"), s.Call)}, func(messages.Stored) bool {
			copies++
			return true
		})
		if err != nil || copies != 1 {
			t.Fatalf("%d copies of the call are queued, %v", copies, err)
		}
	})
}
