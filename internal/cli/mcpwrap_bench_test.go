package cli

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// BenchmarkWrappedCall calls one server of MCP directly and another process of
// it through mulligan mcp --wrap, by turns, and tells the medians and what the
// pool adds to each (docs/mcp.md).
func BenchmarkWrappedCall(b *testing.B) {
	self, err := os.Executable()
	if err != nil {
		b.Fatal(err)
	}
	dir := b.TempDir() // programs of the tests are told by their names
	for _, name := range []string{"mulligan", "mcpserver"} {
		if err := os.Symlink(self, filepath.Join(dir, name)); err != nil {
			b.Fatal(err)
		}
	}
	connect := func(args ...string) *mcp.ClientSession {
		cmd := exec.Command(filepath.Join(dir, args[0]), args[1:]...)
		s, err := mcp.NewClient(&mcp.Implementation{Name: "bench", Version: "1"}, nil).Connect(b.Context(), &mcp.CommandTransport{Command: cmd}, nil)
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { _ = s.Close() })
		return s
	}
	sides := []*mcp.ClientSession{connect("mcpserver"), connect("mulligan", "mcp", "--wrap", "--", filepath.Join(dir, "mcpserver"))}
	took := make([][]time.Duration, len(sides))
	call := func(i int) {
		begun := time.Now()
		r, err := sides[i].CallTool(b.Context(), &mcp.CallToolParams{Name: "greet", Arguments: json.RawMessage(`{"text":"Ada"}`)})
		if err != nil || r.IsError {
			b.Fatalf("%+v, %v", r, err)
		}
		took[i] = append(took[i], time.Since(begun))
	}
	for i := range sides {
		call(i)
		took[i] = nil
	}
	for b.Loop() {
		for i := range sides {
			call(i)
		}
	}
	at := func(i, percent int) float64 {
		slices.Sort(took[i])
		return float64(took[i][(len(took[i])-1)*percent/100].Microseconds())
	}
	b.ReportMetric(at(0, 50), "direct-p50-µs")
	b.ReportMetric(at(0, 99), "direct-p99-µs")
	b.ReportMetric(at(1, 50), "wrapped-p50-µs")
	b.ReportMetric(at(1, 99), "wrapped-p99-µs")
	b.ReportMetric(at(1, 50)-at(0, 50), "added-p50-µs")
}
