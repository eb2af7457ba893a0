package mcpserver

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"
)

// wire speaks the protocol by hand, line by line, as a transcript.
type wire struct {
	t     *testing.T
	in    *io.PipeWriter
	lines chan string
	close func()
	last  int // id of a request
}

func (s *served) wire(t *testing.T) *wire {
	t.Helper()
	toServer, in := io.Pipe()
	out, fromServer := io.Pipe()
	w := &wire{t: t, in: in, lines: make(chan string, 1000)}
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	served, read := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(served)
		_ = s.ServeIO(ctx, toServer, fromServer)
		_ = fromServer.Close()
		_ = toServer.Close()
	}()
	go func() {
		defer close(read)
		lines := bufio.NewScanner(out)
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			w.lines <- lines.Text()
		}
	}()
	w.close = func() {
		_ = in.Close()
		<-served
		<-read
	}
	t.Cleanup(func() {
		w.close()
		stop()
	})
	return w
}

func (w *wire) send(line string) {
	w.t.Helper()
	if _, err := io.WriteString(w.in, line+"\n"); err != nil {
		w.t.Fatal(err)
	}
}

// ask sends a request and gives its answer; what comes before is left out.
func (w *wire) ask(line string) string {
	w.t.Helper()
	got, _ := w.answer(line)
	return got
}

// answer is ask, and gives what came before too.
func (w *wire) answer(line string) (answer string, before []string) {
	w.t.Helper()
	w.send(line)
	var asked struct {
		ID json.RawMessage `json:"id"`
	}
	if err := json.Unmarshal([]byte(line), &asked); err != nil {
		w.t.Fatal(err)
	}
	for late := time.After(patience); ; {
		select {
		case got := <-w.lines:
			var m struct {
				ID     json.RawMessage `json:"id"`
				Method string          `json:"method"`
			}
			if err := json.Unmarshal([]byte(got), &m); err != nil {
				w.t.Fatalf("%s: %v", got, err)
			}
			if string(m.ID) == string(asked.ID) && m.Method == "" {
				return got, before
			}
			before = append(before, got)
		case <-late:
			w.t.Fatalf("no answer to %s; before: %s", line, strings.Join(before, "\n"))
		}
	}
}

// initialize shakes hands as the revisions up to 2025-11-25 do.
func (w *wire) initialize(version string) string {
	w.t.Helper()
	got := w.ask(fmt.Sprintf(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":%q,"capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`, version))
	w.send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	return got
}

// The revisions before 2026-07-28 shake hands, and read no type of a result.
func TestOlderRevisionsAreServed(t *testing.T) {
	s := serve(t, nil)
	for _, version := range []string{"2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"} {
		w := s.wire(t)
		if got := w.initialize(version); !strings.Contains(got, fmt.Sprintf(`"protocolVersion":%q`, version)) || !strings.Contains(got, `"tools":{"listChanged":true}`) {
			t.Errorf("%s: %s", version, got)
		}
		got := w.ask(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"upper","arguments":{"text":"a"}}}`)
		if !strings.Contains(got, `"content":[{"text":"A","type":"text"}]`) || strings.Contains(got, "resultType") || strings.Contains(got, "isError") {
			t.Errorf("%s: %s", version, got)
		}
	}
}
