package calls

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"mulligan/internal/format"
	"mulligan/pkg/messages"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fakePool ends each accepted call by a function, in the order of submission
// or when a test says so.
type fakePool struct {
	mu       sync.Mutex
	results  []messages.Result
	changed  chan struct{}
	accepted map[string]messages.Submission
	runs     map[string]int // executions by call id
	repeats  int
	active   map[string]int // open calls by run name

	refuse func(messages.Submission) *messages.Refusal
	end    func(messages.Submission) *messages.Result // nil: the call stays open
	fail   error                                      // of Submit, before anything is accepted
}

func newPool() *fakePool {
	return &fakePool{changed: make(chan struct{}), accepted: make(map[string]messages.Submission), runs: make(map[string]int), active: make(map[string]int)}
}

func (p *fakePool) Position(context.Context) (uint64, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return uint64(len(p.results) + 1), nil
}

func (p *fakePool) Submit(_ context.Context, batch string, _ int, repeat bool, calls []messages.Submission) ([]messages.Refusal, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if repeat {
		p.repeats += len(calls)
	}
	if p.fail != nil {
		return nil, p.fail
	}
	var refused []messages.Refusal
	for _, s := range calls {
		if p.refuse != nil {
			if r := p.refuse(s); r != nil {
				r.Call, r.Ref = s.Call, s.Ref
				refused = append(refused, *r)
				continue
			}
		}
		if _, there := p.accepted[s.Call]; there {
			continue
		}
		p.accepted[s.Call] = s
		p.execute(batch, s)
	}
	return refused, nil
}

func (p *fakePool) execute(batch string, s messages.Submission) {
	p.runs[s.Call]++
	r := &messages.Result{Status: messages.Succeeded, Attempts: 1, Output: messages.Body{Inline: s.Input}}
	if p.end != nil {
		r = p.end(s)
	}
	if r == nil {
		return
	}
	p.finish(batch, s, *r)
}

func (p *fakePool) finish(batch string, s messages.Submission, r messages.Result) {
	r.Call, r.Ref, r.Tool, r.Labels = s.Call, s.Ref, s.Tool, s.Labels
	if r.Run = messages.UnnamedRun(batch); s.Run != "" {
		r.Run = messages.NamedRun(s.Run)
	}
	p.results = append(p.results, r)
	close(p.changed)
	p.changed = make(chan struct{})
}

func (p *fakePool) Results(ctx context.Context, runs []messages.Run, from uint64, fn func(messages.Result) error) error {
	wanted := make(map[messages.Run]bool)
	for _, r := range runs {
		wanted[r] = true
	}
	for next := int(from) - 1; ; {
		p.mu.Lock()
		rs, changed := p.results[min(next, len(p.results)):], p.changed
		p.mu.Unlock()
		next += len(rs)
		for _, r := range rs {
			if len(runs) > 0 && !wanted[r.Run] {
				continue
			}
			if err := fn(r); err != nil {
				return err
			}
		}
		if len(rs) > 0 {
			continue
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func (p *fakePool) Output(_ context.Context, r messages.Result) ([]byte, error) {
	if r.Output.Ref != nil {
		return nil, messages.ErrNotFound
	}
	return r.Output.Inline, nil
}

func (p *fakePool) Known(_ context.Context, _ messages.Run, call string) (bool, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, ok := p.accepted[call]
	return ok, nil
}

type runResult struct {
	lines   []Result
	raw     string
	summary Summary
	err     error
}

// run runs a file with its journal, as the command does.
func run(t *testing.T, ctx context.Context, pool Pool, path string, restart bool, o Options) runResult {
	t.Helper()
	f, err := Open(path, nil, format.Auto, o.Sequence)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	j, err := OpenJournal(JournalPath(path), f, restart)
	if err != nil {
		return runResult{err: err}
	}
	var out bytes.Buffer
	s, err := Run(ctx, pool, f, j, &out, o)
	if cerr := j.Close(); cerr != nil {
		t.Fatal(cerr)
	}
	res := runResult{raw: out.String(), summary: s, err: err}
	d := json.NewDecoder(strings.NewReader(res.raw))
	for d.More() {
		var l Result
		if err := d.Decode(&l); err != nil {
			t.Fatalf("%v in %q", err, res.raw)
		}
		res.lines = append(res.lines, l)
	}
	return res
}

func refs(ls []Result) string {
	var out []string
	for _, l := range ls {
		out = append(out, l.Ref)
	}
	return strings.Join(out, " ")
}

func echo(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `{"ref":"%d","tool":"echo","input":{"i":%d}}`+"\n", i, i)
	}
	return b.String()
}

func TestRunWritesALineForEachInInputOrder(t *testing.T) {
	pool := newPool()
	text := strings.Replace(echo(2000), `{"ref":"7",`, `{"ref":"7" `, 1) // line 8 is not JSON
	text = strings.Replace(text, `{"ref":"9","tool":"echo"`, `{"ref":"9","tool":"ecco"`, 1)
	pool.refuse = func(s messages.Submission) *messages.Refusal {
		if s.Tool == "ecco" {
			return &messages.Refusal{Code: messages.CodeUnknownTool, Text: "tool 'ecco' is not available. Did you mean 'echo'?"}
		}
		return nil
	}
	got := run(t, t.Context(), pool, write(t, text), false, Options{})
	if got.err != nil || len(got.lines) != 2000 {
		t.Fatalf("%d lines, err %v", len(got.lines), got.err)
	}
	for i, l := range got.lines {
		switch {
		case i == 7:
			if l.Status != messages.Refused || !strings.HasPrefix(l.Reason, "line 8: is not JSON at byte") || *l.Output != l.Reason || !l.IsError {
				t.Fatalf("the malformed line: %+v", l)
			}
		case i == 9:
			if l.Status != messages.Refused || l.Code != messages.CodeUnknownTool || l.Ref != "9" {
				t.Fatalf("the refused call: %+v", l)
			}
		case l.Ref != fmt.Sprint(i) || l.Status != messages.Succeeded || *l.Output != fmt.Sprintf(`{"i":%d}`, i):
			t.Fatalf("line %d: %+v", i, l)
		}
	}
	if want := (Summary{Submitted: 1998, Succeeded: 1998, Refused: 2}); got.summary != want || got.summary.AllWell() {
		t.Fatalf("summary %+v", got.summary)
	}
}

func TestRunLinesHaveTheFieldsInTheirOrder(t *testing.T) {
	pool := newPool()
	pool.end = func(s messages.Submission) *messages.Result {
		return &messages.Result{Status: messages.Succeeded, Attempts: 2, RecoveredBy: "rule", Duration: messages.Millis(3 * time.Millisecond), Output: messages.Body{Inline: []byte("<\xff>")}}
	}
	got := run(t, t.Context(), pool, write(t, `{"ref":"a","run":"r.1","tool":"t","input":{},"labels":{"k":"v"}}`), false, Options{})
	call := got.lines[0].Call
	want := `{"ref":"a","call":"` + call + `","run":"r.1","status":"succeeded","is_error":false,"output_base64":"PP8+","attempts":2,` +
		`"recovered_by":"rule","reason":"","guidance":"","duration_ms":3,"labels":{"k":"v"}}` + "\n"
	if got.raw != want {
		t.Fatalf("got  %s\nwant %s", got.raw, want)
	}
	if got.summary != (Summary{Submitted: 1, Succeeded: 1, Recovered: 1}) {
		t.Fatalf("summary %+v", got.summary)
	}
}

// The first call ends last: in input order nothing is written before it, in
// completion order it comes last.
func TestRunOrders(t *testing.T) {
	for order, want := range map[Order]string{OrderInput: "0 1 2 3", OrderDone: "1 2 3 0"} {
		pool := newPool()
		var held messages.Submission
		n := 0
		pool.end = func(s messages.Submission) *messages.Result {
			if s.Ref == "0" {
				held = s
				return nil
			}
			if n++; n == 3 {
				go func() {
					pool.mu.Lock()
					defer pool.mu.Unlock()
					pool.finish("00000000-0000-4000-8000-000000000000", messages.Submission{Call: messages.NewCallID()}, messages.Result{Status: messages.Failed}) // another's
					held.Run = "r"
					pool.finish("", held, messages.Result{Status: messages.Succeeded})
				}()
			}
			return &messages.Result{Status: messages.Succeeded}
		}
		got := run(t, t.Context(), pool, write(t, strings.ReplaceAll(echo(4), `"tool"`, `"run":"r","tool"`)), false, Options{Order: order})
		if got.err != nil || refs(got.lines) != want {
			t.Errorf("order %s: %s, err %v; want %s", order, refs(got.lines), got.err, want)
		}
	}
}

func TestRunInSequence(t *testing.T) {
	pool := newPool()
	pool.end = func(s messages.Submission) *messages.Result {
		pool.active[s.Run]++
		if pool.active[s.Run] > 1 && s.Run != "" {
			t.Errorf("two calls of run %s are open", s.Run)
		}
		go func() {
			pool.mu.Lock()
			defer pool.mu.Unlock()
			pool.active[s.Run]--
			pool.finish("", s, messages.Result{Status: messages.Failed})
		}()
		return nil
	}
	var b strings.Builder
	for i := range 90 {
		fmt.Fprintf(&b, `{"ref":"%d","run":"r%d","tool":"echo","input":{}}`+"\n", i, i%3)
	}
	got := run(t, t.Context(), pool, write(t, b.String()), false, Options{Sequence: true})
	if got.err != nil || len(got.lines) != 90 || got.summary.Failed != 90 {
		t.Fatalf("%+v, err %v", got.summary, got.err)
	}
}

// The window bounds what is open, and the rest follows as calls end.
func TestRunKeepsItsWindow(t *testing.T) {
	pool := newPool()
	open := 0
	pool.end = func(s messages.Submission) *messages.Result {
		if open++; open > 10 {
			t.Errorf("%d calls are open", open)
		}
		s.Run = "x"
		go func() {
			pool.mu.Lock()
			defer pool.mu.Unlock()
			open--
			pool.finish("", s, messages.Result{Status: messages.Succeeded})
		}()
		return nil
	}
	got := run(t, t.Context(), pool, write(t, strings.ReplaceAll(echo(300), `"tool"`, `"run":"x","tool"`)), false, Options{Window: 10})
	if got.err != nil || got.summary.Succeeded != 300 {
		t.Fatalf("%+v, err %v", got.summary, got.err)
	}
}

// The run is interrupted with some calls ended, some accepted and open, and
// some never submitted. The next one goes on without running any call twice.
func TestRunGoesOnAfterAnInterruption(t *testing.T) {
	pool := newPool()
	ctx, interrupt := context.WithCancelCause(t.Context())
	stopped := errors.New("interrupted")
	ended := 0
	pool.end = func(s messages.Submission) *messages.Result {
		if ended++; ended > 500 {
			return nil
		}
		return &messages.Result{Status: messages.Succeeded, Output: messages.Body{Inline: s.Input}}
	}
	path := write(t, echo(2000))
	o := Options{Window: 900, Progress: func(s Summary) {
		if s.Succeeded == 500 {
			interrupt(stopped)
		}
	}}
	first := run(t, ctx, pool, path, false, o)
	if !errors.Is(first.err, stopped) || first.summary.Succeeded != 500 {
		t.Fatalf("%+v, err %v", first.summary, first.err)
	}
	open := len(pool.accepted) - 500
	if open == 0 || len(pool.accepted) == 2000 {
		t.Fatalf("%d calls were accepted; the test needs open ones", len(pool.accepted))
	}
	journal, err := os.ReadFile(JournalPath(path))
	if err != nil {
		t.Fatal(err)
	}
	var h Header
	if err := json.Unmarshal(journal[:bytes.IndexByte(journal, '\n')], &h); err != nil {
		t.Fatal(err)
	}
	pool.mu.Lock()
	pool.end = nil
	known := make(map[string]bool)
	for _, r := range pool.results {
		known[r.Call] = true
	}
	for id, s := range pool.accepted { // the open ones end meanwhile
		if !known[id] {
			pool.finish(h.Batch, s, messages.Result{Status: messages.Succeeded, Output: messages.Body{Inline: s.Input}})
		}
	}
	pool.mu.Unlock()

	second := run(t, t.Context(), pool, path, false, Options{Where: "here"})
	if second.err != nil || len(second.lines) != 2000 || second.summary.Succeeded != 2000 {
		t.Fatalf("%+v, %d lines, err %v", second.summary, len(second.lines), second.err)
	}
	for i, l := range second.lines {
		if l.Ref != fmt.Sprint(i) || *l.Output != fmt.Sprintf(`{"i":%d}`, i) {
			t.Fatalf("line %d: %+v", i, l)
		}
	}
	if len(pool.runs) != 2000 {
		t.Fatalf("%d calls ran for 2000 lines", len(pool.runs))
	}

	third := run(t, t.Context(), newPool(), path, false, Options{})
	if third.err != nil || third.raw != second.raw {
		t.Fatalf("a complete journal prints other lines, err %v", third.err)
	}
	fourth := run(t, t.Context(), newPool(), path, false, Options{Order: OrderDone})
	if fourth.err != nil || len(fourth.lines) != 2000 {
		t.Fatalf("in completion order: %d lines, err %v", len(fourth.lines), fourth.err)
	}
}

// Nobody confirmed the calls: they are submitted again with their ids, as
// ones that may have been submitted before.
func TestRunRepeatsWhatNobodyConfirmed(t *testing.T) {
	pool := newPool()
	pool.fail = errors.New("no answer")
	path := write(t, echo(300))
	if got := run(t, t.Context(), pool, path, false, Options{}); !errors.Is(got.err, pool.fail) {
		t.Fatalf("err %v", got.err)
	}
	pool.fail = nil
	got := run(t, t.Context(), pool, path, false, Options{})
	if got.err != nil || got.summary.Succeeded != 300 || pool.repeats == 0 {
		t.Fatalf("%+v, %d repeated, err %v", got.summary, pool.repeats, got.err)
	}
}

func TestRunRefusesAnotherPool(t *testing.T) {
	path := write(t, echo(3))
	f := open(t, path, false)
	j, err := OpenJournal(JournalPath(path), f, false)
	if err != nil {
		t.Fatal(err)
	}
	call := messages.NewCallID()
	err = errors.Join(
		j.start(Header{Batch: messages.NewCallID(), Where: "nats://a", From: 1, Created: time.Now()}),
		j.sent([]sent{{Entry: 1, Call: call}}), j.accepted([]int32{1}), j.Close())
	if err != nil {
		t.Fatal(err)
	}
	got := run(t, t.Context(), newPool(), path, false, Options{Where: "nats://b"})
	if got.err == nil {
		t.Fatal("the calls of another pool were waited for")
	}
	for _, w := range []string{"nats://b", "nats://a", call, "--restart"} {
		if !strings.Contains(got.err.Error(), w) {
			t.Errorf("%q lacks %q", got.err, w)
		}
	}
	if got := run(t, t.Context(), newPool(), path, true, Options{}); got.err != nil || got.summary.Succeeded != 3 {
		t.Fatalf("restarted: %+v, err %v", got.summary, got.err)
	}
}

func TestRunRefusesAChangedFile(t *testing.T) {
	pool := newPool()
	path := write(t, echo(3))
	if got := run(t, t.Context(), pool, path, false, Options{}); got.err != nil {
		t.Fatal(got.err)
	}
	if err := os.WriteFile(path, []byte(strings.Replace(echo(3), `"i":1`, `"i":8`, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	got := run(t, t.Context(), pool, path, false, Options{})
	if got.err == nil || !strings.Contains(got.err.Error(), "has changed since its journal") || !strings.Contains(got.err.Error(), "--restart") {
		t.Fatalf("err %v", got.err)
	}
	if got := run(t, t.Context(), pool, path, true, Options{}); got.err != nil || *got.lines[1].Output != `{"i":8}` {
		t.Fatalf("restarted: err %v", got.err)
	}
}

func TestRunRefusesAnotherSequence(t *testing.T) {
	path := write(t, echo(3))
	if got := run(t, t.Context(), newPool(), path, false, Options{}); got.err != nil {
		t.Fatal(got.err)
	}
	if got := run(t, t.Context(), newPool(), path, false, Options{Sequence: true}); got.err == nil || !strings.Contains(got.err.Error(), "without --sequence run") {
		t.Fatalf("err %v", got.err)
	}
}

func TestRunTellsOfAnOutputThatIsGone(t *testing.T) {
	pool := newPool()
	ref := messages.PayloadRef{Digest: strings.Repeat("a", 64), Size: 200 << 10, Chunks: 1}
	pool.end = func(messages.Submission) *messages.Result {
		return &messages.Result{Status: messages.Succeeded, Output: messages.Body{Ref: &ref}}
	}
	got := run(t, t.Context(), pool, write(t, echo(1)), false, Options{})
	if got.err != nil || !strings.Contains(got.lines[0].Reason, "outlived its retention") {
		t.Fatalf("%+v, err %v", got.lines, got.err)
	}
}

type brokenPipe struct{}

func (brokenPipe) Write([]byte) (int, error) { return 0, errors.New("broken pipe") }

func TestRunStopsWhenNobodyReads(t *testing.T) {
	path := write(t, echo(10))
	f := open(t, path, false)
	j, err := TempJournal(f)
	if err != nil {
		t.Fatal(err)
	}
	if _, err = Run(t.Context(), newPool(), f, j, brokenPipe{}, Options{}); err == nil || !strings.Contains(err.Error(), "broken pipe") {
		t.Fatalf("err %v", err)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(j.Path()); !os.IsNotExist(err) {
		t.Fatal("the temporary journal is still there")
	}
}

func TestJournalIsNotSharedByTwoRuns(t *testing.T) {
	path := write(t, echo(1))
	f := open(t, path, false)
	first, err := OpenJournal(JournalPath(path), f, false)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := OpenJournal(JournalPath(path), f, false); !errors.Is(err, ErrBusy) {
		t.Fatalf("err %v", err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(JournalPath(path)); !os.IsNotExist(err) {
		t.Fatal("a journal that holds nothing is left behind")
	}
}

// A journal that was cut anywhere, as by a crash, is gone on with from its
// last whole line; one that is no journal is refused.
func TestJournalCutAnywhere(t *testing.T) {
	pool := newPool()
	path := write(t, echo(20))
	want := run(t, t.Context(), pool, path, false, Options{})
	whole, err := os.ReadFile(JournalPath(path))
	if err != nil {
		t.Fatal(err)
	}
	for cut := 0; cut <= len(whole); cut += 13 {
		if err := os.WriteFile(JournalPath(path), whole[:cut], 0o600); err != nil {
			t.Fatal(err)
		}
		got := run(t, t.Context(), pool, path, false, Options{})
		if got.err != nil || len(got.lines) != 20 {
			t.Fatalf("cut at %d: %d lines, err %v", cut, len(got.lines), got.err)
		}
		if again := run(t, t.Context(), pool, path, false, Options{}); again.err != nil || again.raw != got.raw {
			t.Fatalf("cut at %d, gone on with, and read again: err %v", cut, again.err)
		}
		if cut > len(whole)/4 && got.raw != want.raw {
			t.Fatalf("cut at %d: other results\n%s", cut, got.raw)
		}
	}
}

// What is no journal of this file is refused and stays as it is, with and
// without --restart: it is the work of somebody, or of a later version.
func TestJournalLeavesOtherFilesAlone(t *testing.T) {
	later := `{"mulligan_journal":99,"file":"calls.jsonl"}` + "\n"
	head := `{"mulligan_journal":1,"calls":2,"created":"2031-02-03T04:05:06Z"}` + "\n"
	for _, tc := range []struct {
		name, content, says string
		restarts            bool
	}{
		{"notes", "my notes\n", "is not a journal", false},
		{"notes without a line end", "my notes", "is not a journal", false},
		{"one byte", "x", "is not a journal", false},
		{"calls", echo(3), "is not a journal", false},
		{"of a later version", later, "is not a journal that this version reads", true},
		{"with a damaged line", head + "{]\n", "is damaged at byte 66", true},
		{"with a result of a call that is not there", head + `{"done":2,"result":{"status":"failed"}}` + "\n", "tells of call 2 of a file of 2", true},
		{"with a negative call", head + `{"sent":[{"i":-1,"call":"x"}]}` + "\n", "tells of call -1", true},
		{"that accepts what is not there", head + `{"accepted":[7]}` + "\n", "tells of call 7", true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			path := write(t, echo(2))
			if err := os.WriteFile(JournalPath(path), []byte(tc.content), 0o600); err != nil {
				t.Fatal(err)
			}
			unchanged := func() {
				t.Helper()
				if b, err := os.ReadFile(JournalPath(path)); err != nil || string(b) != tc.content {
					t.Fatalf("the file is now %q, %v", b, err)
				}
			}
			if got := run(t, t.Context(), newPool(), path, false, Options{}); got.err == nil || !strings.Contains(got.err.Error(), tc.says) {
				t.Fatalf("err %v", got.err)
			}
			unchanged()
			got := run(t, t.Context(), newPool(), path, true, Options{})
			if tc.restarts != (got.err == nil) {
				t.Fatalf("restarted: err %v", got.err)
			}
			if !tc.restarts {
				unchanged()
			}
		})
	}
}

// The file of calls is nobody's journal, by whatever name and also when it is empty.
func TestJournalIsNotTheFileOfCalls(t *testing.T) {
	for _, content := range []string{"", echo(2)} {
		path := write(t, content)
		link := path + ".link"
		if err := os.Symlink(path, link); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{path, link} {
			if j, err := OpenJournal(name, open(t, path, false), true); err == nil || !strings.Contains(err.Error(), "is the file of calls itself") {
				t.Fatalf("journal %v, err %v", j, err)
			}
		}
		if b, err := os.ReadFile(path); err != nil || string(b) != content {
			t.Fatalf("the calls are now %q, %v", b, err)
		}
	}
}

// What a line says of when it may start stands over what the file as a whole does.
func TestRunLaysNotBeforeUnderTheLines(t *testing.T) {
	at := time.Date(2031, 2, 3, 4, 5, 6, 0, time.UTC)
	pool := newPool()
	got := make(map[string]messages.Submission)
	pool.end = func(s messages.Submission) *messages.Result {
		got[s.Ref] = s
		return &messages.Result{Status: messages.Succeeded, Attempts: 1}
	}
	lines := `{"ref":"none","tool":"t","input":{}}` + "\n" + `{"ref":"time","tool":"t","input":{},"not_before":"2030-01-01T00:00:00Z"}` + "\n" +
		`{"ref":"after","tool":"t","input":{},"after_ms":5}`
	run(t, t.Context(), pool, write(t, lines), false, Options{NotBefore: at})
	if !got["none"].NotBefore.Equal(at) || got["time"].NotBefore.Year() != 2030 || !got["after"].NotBefore.IsZero() || got["after"].After == 0 {
		t.Errorf("submitted %+v", got)
	}
}
