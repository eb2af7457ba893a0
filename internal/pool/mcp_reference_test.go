//go:build mcpservers

package pool

import (
	"context"
	"encoding/json"
	"log/slog"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"mulligan/jetstream"
	"mulligan/pkg/client"
	"mulligan/pkg/messages"
	"mulligan/pkg/recovery"
	"mulligan/pkg/tool/mcptool"
	"mulligan/pkg/worker"
)

// reference is one of the reference servers: how it is started in a folder of
// its own, and the calls of its tools, in order; what they leave behind, later
// ones find.
type reference struct {
	program string
	args    []string
	env     map[string]string
	calls   []referenceCall
}

type referenceCall struct{ tool, input string }

func references(dir string) map[string]reference {
	at := func(name string) string { return filepath.Join(dir, name) }
	return map[string]reference{
		"everything": {program: "mcp-server-everything", args: []string{"stdio"}, calls: []referenceCall{
			{"echo", `{"message":"hello <&> ‹›"}`},
			{"get-annotated-message", `{"messageType":"error","includeImage":true}`},
			{"get-env", `{}`},
			{"get-resource-links", `{"count":3}`},
			{"get-resource-reference", `{"resourceType":"Text","resourceId":1}`},
			{"get-resource-reference", `{"resourceType":"Text","resourceId":-1}`}, // fails
			{"get-structured-content", `{"location":"Chicago"}`},
			{"get-sum", `{"a":1,"b":2.5}`},
			{"get-tiny-image", `{}`},
			{"gzip-file-as-resource", `{"name":"a.gz","data":"data:text/plain;base64,aGVsbG8=","outputType":"resource"}`},
			{"gzip-file-as-resource", `{"name":"a.gz","data":"ftp://nowhere/","outputType":"resource"}`}, // fails
			{"simulate-research-query", `{"topic":"x","ambiguous":false}`},
			{"toggle-simulated-logging", `{}`},
			{"toggle-simulated-logging", `{}`},
			{"toggle-subscriber-updates", `{}`},
			{"toggle-subscriber-updates", `{}`},
			{"trigger-long-running-operation", `{"duration":0.3,"steps":3}`},
		}},
		"filesystem": {program: "mcp-server-filesystem", args: []string{dir}, calls: []referenceCall{
			{"list_allowed_directories", `{}`},
			{"create_directory", `{"path":"` + at("d") + `"}`},
			{"write_file", `{"path":"` + at("d/a.txt") + `","content":"one\ntwo\n"}`},
			{"read_file", `{"path":"` + at("d/a.txt") + `"}`},
			{"read_text_file", `{"path":"` + at("d/a.txt") + `","head":1}`},
			{"read_text_file", `{"path":"` + at("d/none.txt") + `"}`}, // fails
			{"read_text_file", `{"path":"/etc/passwd"}`},              // is denied
			{"edit_file", `{"path":"` + at("d/a.txt") + `","edits":[{"oldText":"two","newText":"three"}]}`},
			{"edit_file", `{"path":"` + at("d/a.txt") + `","edits":[{"oldText":"four","newText":"five"}]}`}, // fails
			{"move_file", `{"source":"` + at("d/a.txt") + `","destination":"` + at("d/b.txt") + `"}`},
			{"move_file", `{"source":"` + at("d/a.txt") + `","destination":"` + at("d/c.txt") + `"}`}, // fails
			{"read_media_file", `{"path":"` + at("d/b.txt") + `"}`},
			{"read_multiple_files", `{"paths":["` + at("d/b.txt") + `","` + at("d/none.txt") + `"]}`},
			{"list_directory", `{"path":"` + at("d") + `"}`},
			{"list_directory_with_sizes", `{"path":"` + at("d") + `"}`},
			{"directory_tree", `{"path":"` + dir + `"}`},
			{"search_files", `{"path":"` + dir + `","pattern":"**/*.txt"}`},
			{"get_file_info", `{"path":"` + at("d/b.txt") + `"}`},
		}},
		"memory": {program: "mcp-server-memory", env: map[string]string{"MEMORY_FILE_PATH": at("memory.json")}, calls: []referenceCall{
			{"create_entities", `{"entities":[{"name":"Ada","entityType":"person","observations":["counts"]},{"name":"Engine","entityType":"machine","observations":[]}]}`},
			{"create_relations", `{"relations":[{"from":"Ada","to":"Engine","relationType":"programs"}]}`},
			{"add_observations", `{"observations":[{"entityName":"Ada","contents":["writes"]}]}`},
			{"add_observations", `{"observations":[{"entityName":"Nobody","contents":["is"]}]}`}, // fails
			{"read_graph", `{}`},
			{"search_nodes", `{"query":"Ada"}`},
			{"open_nodes", `{"names":["Engine"]}`},
			{"delete_observations", `{"deletions":[{"entityName":"Ada","observations":["counts"]}]}`},
			{"delete_relations", `{"relations":[{"from":"Ada","to":"Engine","relationType":"programs"}]}`},
			{"delete_entities", `{"entityNames":["Engine"]}`},
			{"read_graph", `{}`},
		}},
		"sequential-thinking": {program: "mcp-server-sequential-thinking", env: map[string]string{"DISABLE_THOUGHT_LOGGING": "true"}, calls: []referenceCall{
			{"sequentialthinking", `{"thought":"first","nextThoughtNeeded":true,"thoughtNumber":1,"totalThoughts":2}`},
			{"sequentialthinking", `{"thought":"second","nextThoughtNeeded":false,"thoughtNumber":2,"totalThoughts":2,"isRevision":true,"revisesThought":1}`},
		}},
	}
}

func programOf(t *testing.T, name string) string {
	t.Helper()
	bin := os.Getenv("MULLIGAN_MCP_SERVERS")
	if bin == "" {
		t.Fatal("MULLIGAN_MCP_SERVERS is not set: run make mcp")
	}
	return filepath.Join(bin, name)
}

// clean gives the folder as it was at the start.
func clean(t *testing.T, dir string) {
	t.Helper()
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
}

var moment = regexp.MustCompile(`(Mon|Tue|Wed|Thu|Fri|Sat|Sun) \w{3} \d{2} \d{4} [0-9:]{8} GMT[+-]\d{4} \([^)]*\)|\d{4}-\d{2}-\d{2}T[0-9:.]+Z|\d{1,2}:\d{2}:\d{2} [AP]M`)

// same is a result of a tool in a form that can be compared.
func same(t *testing.T, r *mcp.CallToolResult) any {
	t.Helper()
	b, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	var v any
	if err := json.Unmarshal(moment.ReplaceAll(b, []byte("(a time)")), &v); err != nil {
		t.Fatal(err)
	}
	return v
}

// asResult is the result that the output of a call stands for.
func asResult(t *testing.T, r messages.Result) *mcp.CallToolResult {
	t.Helper()
	var out mcp.CallToolResult
	if !mcptool.LooksLikeResult(r.Output.Inline) {
		out.Content = []mcp.Content{&mcp.TextContent{Text: string(r.Output.Inline)}}
		out.IsError = r.Status != messages.Succeeded
		return &out
	}
	if err := json.Unmarshal(r.Output.Inline, &out); err != nil {
		t.Fatal(err)
	}
	return &out
}

// direct calls the tools without a pool.
func direct(t *testing.T, ref reference) ([]*mcp.Tool, []*mcp.CallToolResult) {
	t.Helper()
	cmd := exec.Command(programOf(t, ref.program), ref.args...)
	for _, n := range []string{"HOME", "LANG", "LC_ALL", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "TZ", "USER"} {
		if v, ok := os.LookupEnv(n); ok {
			cmd.Env = append(cmd.Env, n+"="+v)
		}
	}
	for n, v := range ref.env {
		cmd.Env = append(cmd.Env, n+"="+v)
	}
	slices.Sort(cmd.Env)
	c := mcp.NewClient(&mcp.Implementation{Name: "direct", Version: "1"}, &mcp.ClientOptions{Capabilities: &mcp.ClientCapabilities{}})
	s, err := c.Connect(t.Context(), &mcp.CommandTransport{Command: cmd}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var tools []*mcp.Tool
	for tool, err := range s.Tools(t.Context(), nil) {
		if err != nil {
			t.Fatal(err)
		}
		tools = append(tools, tool)
	}
	var out []*mcp.CallToolResult
	for _, call := range ref.calls {
		r, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: call.tool, Arguments: json.RawMessage(call.input)})
		if err != nil { // an error of the protocol is a failure with its text
			text := err.Error()
			r = &mcp.CallToolResult{IsError: true, Content: []mcp.Content{&mcp.TextContent{Text: text[strings.Index(text, `": `)+3:]}}}
		}
		out = append(out, r)
	}
	return tools, out
}

// through starts servers and a pool that serves them.
func through(t *testing.T, log *slog.Logger, retries int, configs ...mcptool.Config) (*client.Client, *jetstream.Pool) {
	t.Helper()
	var lives []worker.Live
	for _, c := range configs {
		s, err := mcptool.New(c, log)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Start(context.WithoutCancel(t.Context())); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := s.Stop(context.WithoutCancel(t.Context())); err != nil {
				t.Error(err)
			}
		})
		<-s.Started()
		lives = append(lives, s)
	}
	p, err := Start(t.Context(), Config{Live: lives, Log: log, Policies: recovery.Document{Pool: recovery.Policy{MaxRetries: &retries}.Values()}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stop(t, p) })
	b, err := p.Connect(t.Context(), "test")
	if err != nil {
		t.Fatal(err)
	}
	c, err := client.New(b, client.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close(); b.Close() })
	return c, b
}

func TestReferenceServersAreTheSameThroughAPool(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	for name, ref := range references(dir) {
		t.Run(name, func(t *testing.T) {
			clean(t, dir)
			listed, wanted := direct(t, ref)
			called := make(map[string]bool)
			for _, c := range ref.calls {
				called[c.tool] = true
			}
			clean(t, dir)
			s := mcptool.Config{Name: name, Command: programOf(t, ref.program), Args: ref.args, Env: ref.env, Prefix: new("")}
			c, b := through(t, slog.New(slog.DiscardHandler), 0, s)
			entries, err := b.Entries(t.Context(), messages.BucketTools, "tool.>")
			if err != nil {
				t.Fatal(err)
			}
			served := make(map[string]json.RawMessage)
			for _, e := range entries {
				var tool messages.Tool
				if err := json.Unmarshal(e.Value, &tool); err != nil {
					t.Fatal(err)
				}
				served[tool.Spec.Name] = tool.Spec.Schema
			}
			for _, tool := range listed {
				if !called[tool.Name] {
					t.Errorf("tool %s is not called by this test", tool.Name)
				}
				var want, got any
				b, _ := json.Marshal(tool.InputSchema)
				if err := json.Unmarshal(b, &want); err != nil {
					t.Fatal(err)
				}
				if err := json.Unmarshal(served[tool.Name], &got); err != nil || !cmp.Equal(want, got) {
					t.Errorf("tool %s: %v: %s", tool.Name, err, cmp.Diff(want, got))
				}
			}
			if len(served) != len(listed) {
				t.Errorf("%d tools are served: %v", len(served), slices.Sorted(maps.Keys(served)))
			}
			failed := 0
			for i, call := range ref.calls {
				r, err := c.Call(t.Context(), messages.Submission{Tool: call.tool, Input: []byte(call.input)})
				if err != nil {
					t.Fatal(err)
				}
				got, want := same(t, asResult(t, r)), same(t, wanted[i])
				if !cmp.Equal(want, got) || (r.Status == messages.Succeeded) == wanted[i].IsError {
					t.Errorf("%s %s: %s %s: %s", call.tool, call.input, r.Status, r.Code, cmp.Diff(want, got))
				}
				if wanted[i].IsError {
					failed++
				}
			}
			t.Logf("%d tools, %d calls, %d of which fail", len(listed), len(ref.calls), failed)
		})
	}
}

// heard is a log that tells of lines with a text.
type heard struct {
	mu   sync.Mutex
	all  strings.Builder
	text string
	seen chan struct{}
}

func (h *heard) Write(p []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.all.Write(p)
	if strings.Contains(string(p), h.text) {
		select {
		case h.seen <- struct{}{}:
		default:
		}
	}
	return len(p), nil
}

func TestS7_3_AReferenceServerThatIsKilledInTheMiddle(t *testing.T) {
	for name, c := range map[string]struct {
		trust bool
		want  messages.Status
	}{"unsafe": {false, messages.StatusUnknown}, "read only": {true, messages.Succeeded}} {
		t.Run(name, func(t *testing.T) {
			pid := filepath.Join(t.TempDir(), "pid")
			log := &heard{text: "progress of a tool", seen: make(chan struct{}, 1)}
			s := mcptool.Config{
				Name: "everything", Command: "sh", Prefix: new(""), Trust: c.trust,
				Args: []string{"-c", `echo $$ > "$0"; exec "$1" stdio`, pid, programOf(t, "mcp-server-everything")},
			}
			pool, _ := through(t, slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug})), 3, s)
			ended := make(chan messages.Result, 1)
			go func() {
				r, err := pool.Call(t.Context(), messages.Submission{Tool: "trigger-long-running-operation", Input: []byte(`{"duration":4,"steps":8}`)})
				if err != nil {
					t.Error(err)
				}
				ended <- r
			}()
			<-log.seen // it runs
			b, err := os.ReadFile(pid)
			if err != nil {
				t.Fatal(err)
			}
			n, err := strconv.Atoi(strings.TrimSpace(string(b)))
			if err != nil {
				t.Fatal(err)
			}
			if err := syscall.Kill(n, syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			select {
			case r := <-ended:
				if r.Status != c.want || c.want == messages.Succeeded && r.Attempts != 2 {
					t.Errorf("%s after %d attempts: %s %s", r.Status, r.Attempts, r.Code, r.Output.Inline)
				}
			case <-time.After(patience):
				t.Fatal(log.all.String())
			}
			r, err := pool.Call(t.Context(), messages.Submission{Tool: "echo", Input: []byte(`{"message":"back"}`)})
			if err != nil || string(r.Output.Inline) != "Echo: back" {
				t.Errorf("%v %+v", err, r)
			}
		})
	}
}
