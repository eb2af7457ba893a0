package archive_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"mulligan/internal/archive"
	"mulligan/internal/pool"
	"mulligan/jetstream"
	"mulligan/pkg/client"
	"mulligan/pkg/messages"
	"mulligan/pkg/tool"
)

const patience = 2 * time.Minute

// rig is a pool with a broker of its own, and a run that is over: calls that
// succeeded, that were mended, that failed, with a large input and a large output.
type rig struct {
	t   *testing.T
	b   *jetstream.Pool
	c   *client.Client
	run messages.Run
}

func start(t *testing.T) *rig {
	t.Helper()
	type in struct {
		Text string `json:"text"`
		N    int    `json:"n"`
	}
	say := func(_ context.Context, i in) (string, error) {
		switch {
		case i.N == 1:
			return "", errors.New("the disk is on fire")
		case i.N == 2:
			return strings.Repeat("y", 300_000), nil
		}
		return fmt.Sprint(len(i.Text)), nil
	}
	p, err := pool.Start(t.Context(), pool.Config{Dir: t.TempDir(), Tools: []*tool.Tool{tool.New("say", say, tool.Effect(messages.Unsafe))}, Lease: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Stop(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	b, err := p.Connect(t.Context(), "test")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	c, err := client.New(b, client.Config{By: "ann"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return &rig{t, b, c, messages.NamedRun("a run")}
}

func (r *rig) must(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

// fill runs the run to its end.
func (r *rig) fill() {
	r.t.Helper()
	ctx, stop := context.WithTimeout(r.t.Context(), patience)
	defer stop()
	_, err := r.c.DeclareRun(ctx, r.run, messages.RunSpec{Labels: messages.Labels{"team": "a"}})
	r.must(err)
	inputs := []string{`{"text":"a"}`, `{"text": "b", "n":"7"}`, `{"n":1}`, `{"text":"` + strings.Repeat("é", 200_000) + `","n":1}`, `{"n":2}`, `{"n":2,"text":"again"}`, `not json`}
	var calls []messages.Submission
	for i, text := range inputs {
		calls = append(calls, messages.Submission{Ref: fmt.Sprint(i), Run: r.run.Name(), Tool: "say", Input: []byte(text), Labels: messages.Labels{"i": fmt.Sprint(i)}})
	}
	refused, err := r.c.Submit(ctx, calls)
	if err != nil || len(refused) > 0 {
		r.t.Fatal(refused, err)
	}
	_, err = r.c.CloseRun(ctx, r.run, int64(len(calls)))
	r.must(err)
	_, err = client.NewRuns(r.b).Wait(ctx, r.run, func(client.RunProgress, time.Duration, bool) {})
	r.must(err)
}

func (r *rig) export() ([]byte, archive.Summary) {
	r.t.Helper()
	var out bytes.Buffer
	sum, err := archive.Export(r.t.Context(), r.b, r.run, &out, nil)
	r.must(err)
	return out.Bytes(), sum
}

func (r *rig) bringIn(to archive.Target, file []byte) error {
	r.t.Helper()
	checked, err := archive.Check(r.t.Context(), bytes.NewReader(file), r.b.Names())
	r.must(err)
	return archive.Import(r.t.Context(), to, bytes.NewReader(file), checked, "ann", nil)
}

// places are all subjects and keys of the pool, but those of what is registered.
func (r *rig) places() []string {
	r.t.Helper()
	all := make(map[string]bool)
	for _, s := range []messages.Stream{messages.StreamCalls, messages.StreamResults, messages.StreamRecovery, messages.StreamSchedule, messages.StreamPayloads} {
		r.must(r.b.List(r.t.Context(), s, nil, func(m messages.Stored) bool { all[m.Subject] = true; return true }))
	}
	for _, b := range []messages.Bucket{messages.BucketAttempts, messages.BucketRuns, messages.BucketControl} {
		r.must(r.b.EachEntry(r.t.Context(), b, ">", func(e messages.Entry) bool {
			run, err := messages.DecodeRun(e.Value)
			all[string(b)+" "+e.Key] = err != nil || !run.Gone()
			return true
		}))
	}
	maps.DeleteFunc(all, func(at string, there bool) bool { return !there || strings.Contains(at, "breaker.") }) // that of the tool
	return slices.Sorted(maps.Keys(all))
}

func (r *rig) delete() {
	r.t.Helper()
	deadline := time.Now().Add(patience)
	e, err := r.c.DeleteRun(r.t.Context(), r.run)
	r.must(err)
	for !e.Gone() {
		if time.Now().After(deadline) {
			r.t.Fatal("it is not deleted in time")
		}
		<-time.After(50 * time.Millisecond)
		got, err := r.b.Load(r.t.Context(), messages.BucketRuns, messages.RunKey(r.run))
		r.must(err)
		e, err = messages.DecodeRun(got.Value)
		r.must(err)
	}
	if e.Delete.Removed.Results != 7 || e.Delete.Removed.Payloads == 0 {
		r.t.Errorf("%+v", e.Delete.Removed)
	}
}

// A run with failures is exported, deleted, and nothing is left; brought in it
// is what it was, byte by byte, and nothing of it ran again.
func TestS12_5_ARunThatIsBroughtInIsWhatItWas(t *testing.T) {
	t.Parallel()
	r := start(t)
	before := r.places()
	r.fill()
	full := r.places()
	file, sum := r.export()
	if sum.Tail.Calls != 7 || sum.Head.Results != 7 || sum.Tail.Missing != 0 || !sum.Head.Whole || sum.Tail.Payloads < 2 {
		t.Fatalf("%+v", sum)
	}
	if err := r.bringIn(r.b, file); !errors.Is(err, archive.ErrExists) {
		t.Fatalf("a run that is there: %v", err)
	}
	r.delete()
	if left := r.places(); !slices.Equal(left, before) {
		t.Fatalf("left:\n%s\nwant\n%s", strings.Join(left, "\n"), strings.Join(before, "\n"))
	}

	// It dies after each write in turn, and the same file goes on.
	for n := 1; ; n += 5 {
		m := &mortal{Pool: r.b}
		m.left.Store(int64(n))
		err := r.bringIn(m, file)
		if err == nil {
			for _, call := range m.order.undecided {
				t.Errorf("the failure of call %s came before its decision, and a reflector of an older version would decide on it", call)
			}
			break
		}
		if !errors.Is(err, errDied) {
			t.Fatal(err)
		}
		reply, err := r.c.Submit(t.Context(), []messages.Submission{{Run: r.run.Name(), Tool: "say", Input: []byte(`{}`)}})
		if err != nil || len(reply) != 1 || reply[0].Code != messages.CodeRunClosed {
			t.Fatalf("a call came in in the middle: %v, %v", reply, err)
		}
	}
	again, _ := r.export()
	if !bytes.Equal(again, file) {
		t.Fatalf("exported again it is\n%s\nand was\n%s", again, file)
	}
	if err := r.bringIn(r.b, file); !errors.Is(err, archive.ErrExists) {
		t.Fatalf("a run that was brought in: %v", err)
	}
	for _, at := range r.places() {
		if !slices.Contains(full, at) {
			t.Errorf("new: %s", at)
		}
	}
	// Whoever reads the story meanwhile comes to no other end.
	for _, consumer := range []string{messages.ConsumerReflector, messages.ConsumerDecisions, messages.ConsumerSettled} {
		for deadline := time.Now().Add(patience); ; <-time.After(20 * time.Millisecond) {
			waiting, unacked, err := r.b.Backlog(t.Context(), messages.StreamRecovery, consumer)
			r.must(err)
			if waiting+unacked == 0 {
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("%s: %d wait, %d are in hands", consumer, waiting, unacked)
			}
		}
	}
	if after, _ := r.export(); !bytes.Equal(after, file) {
		t.Errorf("when all was read it is\n%s\nand was\n%s", after, file)
	}
}

var errDied = errors.New("died")

// mortal writes so many times, and then no more.
type mortal struct {
	*jetstream.Pool
	left  atomic.Int64
	order order
}

// order is in which decisions and failures are written.
type order struct {
	mu        sync.Mutex
	decided   map[string]bool
	undecided []string // calls whose failure came first
}

func (o *order) note(a messages.Address) {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch at := messages.CallKey(a.Run, a.Call); a.Kind {
	case messages.KindDecision:
		if o.decided == nil {
			o.decided = make(map[string]bool)
		}
		o.decided[at] = true
	case messages.KindFailure:
		if !o.decided[at] {
			o.undecided = append(o.undecided, a.Call)
		}
	}
}

func (m *mortal) PutOnce(ctx context.Context, msg messages.Message) (*messages.Stored, error) {
	if m.left.Add(-1) <= 0 {
		return nil, errDied
	}
	if a, err := m.Names().Parse(msg.Subject); err == nil {
		m.order.note(a)
	}
	return m.Pool.PutOnce(ctx, msg)
}

// A file that cannot be used is named with line, field and value.
func TestAFileThatCannotBeUsedIsRefusedWithItsLine(t *testing.T) {
	t.Parallel()
	const head = `{"format":"mulligan-run","version":1,"run":"r","name":"r","whole":true,"calls":1,"results":1}` + "\n"
	const call = `{"call":"019ca8bb-b5c0-7c3a-9f00-5a1f0c2b7d10","result":{"tool":"t","status":"succeeded","attempts":1,"dispatch":0,"output":{"text":"x"}}}` + "\n"
	const end = `{"end":true,"calls":1,"payloads":0,"missing":0}` + "\n"
	check := func(text string) error {
		_, err := archive.Check(t.Context(), strings.NewReader(text), messages.Pool{})
		return err
	}
	if err := check(head + call + end); err != nil {
		t.Fatal(err)
	}
	r := strings.NewReplacer
	for name, c := range map[string]struct{ text, says string }{
		"empty":                  {"", "line 1: the file is empty"},
		"no JSON":                {"hello\n", "line 1: is no JSON"},
		"another format":         {r(`mulligan-run`, `x`).Replace(head), `line 1: format "x" is not "mulligan-run"`},
		"another version":        {r(`"version":1`, `"version":2`).Replace(head), "line 1: version 2 is unknown here, where it is 1"},
		"an unknown field":       {r(`"whole"`, `"hole"`).Replace(head), `line 1: json: unknown field "hole"`},
		"a run":                  {r(`"run":"r"`, `"run":"a.b"`).Replace(head), "line 1: run:"},
		"not whole":              {r(`true`, `false`).Replace(head), "line 1: whole is false"},
		"cut":                    {head + call, "line 3: the file ends here without its last line"},
		"a call that is gone":    {head + end, "line 2: calls is 1, where the first line says 1 and there are 0"},
		"twice":                  {head + call + call, "line 3: call 019ca8bb-b5c0-7c3a-9f00-5a1f0c2b7d10 stands behind"},
		"more":                   {head + call + end + end, "line 4: something follows the last line"},
		"a status":               {head + r("succeeded", "fine").Replace(call), `line 2: unknown status "fine"`},
		"a payload":              {head + r(`{"text":"x"}`, `{"payload":{"digest":"`+strings.Repeat("a", 64)+`","size":1,"chunks":1}}`).Replace(call), "is referred to and stands neither"},
		"a changed payload":      {head + `{"payload":{"digest":"` + strings.Repeat("a", 64) + `","size":1,"chunks":1},"text":"x"}` + "\n", "line 2: payload.digest"},
		"a record that goes on":  {head + r(`,"result"`, `,"record":{"version":"1","state":"waiting","envelope":{"call":"019ca8bb-b5c0-7c3a-9f00-5a1f0c2b7d10","run":"r"}},"result"`).Replace(call), `record: state "waiting" is not ended`},
		"a story of another":     {head + r(`,"result"`, `,"story":[{"kind":"decision","n":0,"body":{"version":"1","call":"019ca8bb-b5c0-7c3a-9f00-5a1f0c2b7d11","run":"r","dispatch":0,"action":{"action":"fail","reason":"x"}}}],"result"`).Replace(call), "story[0]: body is that of another call"},
		"a kind":                 {head + r(`,"result"`, `,"story":[{"kind":"call","n":0,"body":{}}],"result"`).Replace(call), `story[0]: kind "call" is none of`},
		"a dispatch":             {head + r(`,"result"`, `,"story":[{"kind":"settled","n":77,"body":{"version":"1"}}],"result"`).Replace(call), "story[0]:"},
		"a line that is nothing": {head + "{}\n", "line 2: is none of a call, a payload and the end"},
	} {
		var le *archive.LineError
		if err := check(c.text); !errors.As(err, &le) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %q", name, err, c.says)
		}
	}
}
