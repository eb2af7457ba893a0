// Package archtest holds the architecture as rules that a test checks: who may
// import whom, what the pure packages keep away from, and how the source
// looks. A rule that turns out wrong is changed here, where all can see it.
package archtest

import (
	"fmt"
	"slices"
	"strings"
)

// Module is the path of the module.
const Module = "mulligan"

// layer is a group of packages that stand at one height.
type layer struct {
	name string
	// holds are the packages, from the root of the module; one that ends in /
	// stands for all below it too.
	holds []string
	// may are the layers that its packages import, beside their own if inner.
	may   []string
	inner bool
	// pure: no clock, no goroutine, no I/O, no logger.
	pure bool
}

// layers are in the order in which a package finds its own: the first that
// holds it.
func layers() []layer {
	return []layer{
		{name: "vocabulary", holds: []string{"pkg/messages"}, pure: true},
		// Small pure things that several packages share; each imports the vocabulary at the most.
		{name: "forms", holds: []string{"internal/schema", "internal/form", "internal/subject", "internal/payload", "internal/story", "internal/suggest", "internal/expression", "internal/excerpt", "internal/permissions", "internal/secrets", "internal/strict", "internal/runstate"}, may: []string{"vocabulary"}, inner: true, pure: true},
		{name: "service kit", holds: []string{"internal/lifecycle", "internal/lease", "internal/metrics", "internal/pace"}, may: []string{"vocabulary"}},
		{name: "policy", holds: []string{"pkg/recovery", "pkg/recovery/rules"}, may: []string{"vocabulary", "forms"}, inner: true, pure: true},
		// Policy-like, and public: a worker asks hooks, a coordinator the rules among them.
		{name: "hooks", holds: []string{"pkg/hook"}, may: []string{"vocabulary", "forms"}, pure: true},
		{name: "policies of a pool", holds: []string{"internal/policies"}, may: []string{"vocabulary", "forms", "policy", "hooks"}},
		{name: "state machine", holds: []string{"internal/dispatch"}, may: []string{"vocabulary", "forms", "policy"}, pure: true},
		// How programs that a worker starts are ended.
		{name: "processes", holds: []string{"internal/process"}},
		// A server of others is kept running, and so has the life of a service.
		{name: "mcp servers", holds: []string{"pkg/tool/mcptool"}, may: []string{"vocabulary", "forms", "service kit", "processes", "tool sdk"}},
		{name: "tool sdk", holds: []string{"pkg/tool/"}, may: []string{"vocabulary", "forms", "processes"}, inner: true},
		// Machines have goroutines and ports of their own, and know neither the adapter nor each other.
		{name: "worker", holds: []string{"pkg/worker/"}, may: []string{"vocabulary", "forms", "service kit", "tool sdk", "hooks"}, inner: true},
		{name: "coordinator", holds: []string{"internal/coordination/"}, may: []string{"vocabulary", "forms", "service kit", "policy", "policies of a pool", "hooks", "state machine"}, inner: true},
		{name: "reflector", holds: []string{"internal/reflection/", "pkg/recovery/llm"}, may: []string{"vocabulary", "forms", "service kit", "policy", "policies of a pool"}, inner: true},
		{name: "client", holds: []string{"pkg/client/"}, may: []string{"vocabulary", "forms", "service kit"}},
		// How others write calls and answers.
		{name: "formats", holds: []string{"internal/format"}, may: []string{"vocabulary", "forms", "policy"}, pure: true},
		{name: "files of calls", holds: []string{"internal/calls"}, may: []string{"vocabulary", "forms", "policy", "formats"}},
		// What there is to see of a pool.
		{name: "views", holds: []string{"internal/catalogue", "internal/inbox", "internal/archive"}, may: []string{"vocabulary", "forms", "policy", "hooks", "policies of a pool", "state machine"}},
		// What idempotency keys stand for.
		{name: "keys", holds: []string{"internal/keys"}, may: []string{"vocabulary"}},
		{name: "server of mcp", holds: []string{"internal/mcpserver"}, may: []string{"vocabulary", "forms", "service kit", "client", "views", "keys", "mcp servers"}},
		{name: "gateway", holds: []string{"internal/gateway"}, may: []string{"vocabulary", "forms", "service kit", "client", "formats", "files of calls", "views", "keys", "server of mcp"}},
		{name: "replays", holds: []string{"internal/replay"}, may: []string{"vocabulary", "forms", "policy"}, pure: true},
		{name: "ended calls", holds: []string{"internal/replay/scan"}, may: []string{"vocabulary", "forms", "policy", "replays"}},
		{name: "adapter", holds: []string{"jetstream"}, may: []string{"vocabulary", "forms", "service kit"}},
		{name: "yardstick", holds: []string{"jetstream/raw"}, may: []string{"vocabulary"}},
		{name: "embedded server", holds: []string{"jetstream/embedded"}},
		{name: "adapter's twin", holds: []string{"internal/memory"}, may: []string{"vocabulary", "forms"}},
		{name: "test support", holds: []string{"internal/natstest", "internal/freeport", "internal/fuzztest", "internal/modeltest", "internal/porttest", "internal/peertest", "internal/archtest", "internal/statements", "internal/mutants/", "internal/e2e/", "internal/chaos/"}, may: []string{"*"}, inner: true},
		{name: "examples", holds: []string{"examples/"}, may: []string{"vocabulary", "policy", "hooks", "tool sdk", "worker", "client", "formats", "files of calls", "assembly"}, inner: true},
		// What puts the others together.
		{name: "assembly", holds: []string{"internal/"}, may: []string{"*"}, inner: true},
		{name: "commands", holds: []string{"cmd/"}, may: []string{"*"}},
		// Not yet there; named so that they find their place.
		{name: "agent", holds: []string{"pkg/agent/"}, may: []string{"vocabulary", "forms", "client", "policy", "tool sdk"}, inner: true},
	}
}

// owners says which packages alone may import a module of others; tests may too.
func owners() map[string][]string {
	return map[string][]string{
		"github.com/nats-io/nats.go":          {"jetstream", "jetstream/raw"},
		"github.com/nats-io/nats-server":      {"jetstream/embedded"},
		"github.com/modelcontextprotocol":     {"pkg/tool/mcptool", "internal/mcpserver"},
		"github.com/sashabaranov/go-openai":   {"pkg/recovery/llm", "pkg/agent"},
		"github.com/spf13/cobra":              {"internal/cli", "cmd/"},
		"github.com/lmittmann/tint":           {"internal/", "cmd/"},
		"github.com/prometheus/client_golang": {"internal/", "cmd/"},
	}
}

// impure are the packages of the standard library that a pure package does
// without, as prefixes.
var impure = []string{"net", "os", "log", "io/ioutil", "syscall", "runtime", "database", "testing", "plugin"}

// notImpure are exceptions to these.
var notImpure = []string{"net/url", "net/http/httptest"}

// Package is what a rule looks at.
type Package struct {
	Path    string // from the root of the module
	Imports []string
}

// Imports finds what breaks the direction of imports.
func Imports(pkgs []Package) []string {
	var faults []string
	for _, p := range pkgs {
		l, ok := layerOf(p.Path)
		if !ok {
			faults = append(faults, fmt.Sprintf("%s has no layer; give it one in internal/archtest", p.Path))
			continue
		}
		for _, imp := range p.Imports {
			if why := l.forbids(p.Path, imp); why != "" {
				faults = append(faults, fmt.Sprintf("%s (%s) imports %s: %s", p.Path, l.name, imp, why))
			}
		}
	}
	return faults
}

func layerOf(path string) (layer, bool) {
	for _, l := range layers() {
		if slices.ContainsFunc(l.holds, func(h string) bool { return within(path, h) }) {
			return l, true
		}
	}
	return layer{}, false
}

// within says whether a package is the one named by h, or below h where that
// ends in /.
func within(path, h string) bool {
	return path == strings.TrimSuffix(h, "/") || strings.HasSuffix(h, "/") && strings.HasPrefix(path, h)
}

func (l layer) forbids(path, imp string) string {
	if own, ok := strings.CutPrefix(imp, Module+"/"); ok {
		return l.forbidsOwn(own)
	}
	for module, by := range owners() {
		if (imp == module || strings.HasPrefix(imp, module+"/")) && !slices.ContainsFunc(by, func(h string) bool { return within(path, h) }) {
			return "only " + strings.Join(by, ", ") + " may"
		}
	}
	std := !strings.Contains(strings.SplitN(imp, "/", 2)[0], ".")
	if path == "pkg/messages" && !std && imp != "github.com/google/uuid" {
		return "the vocabulary needs the standard library and google/uuid only"
	}
	if l.pure && std && hasPrefix(impure, imp) && !hasPrefix(notImpure, imp) {
		return "the package is pure: no clock, no goroutine, no I/O, no logger"
	}
	return ""
}

func (l layer) forbidsOwn(own string) string {
	target, ok := layerOf(own)
	switch {
	case !ok:
		return "which has no layer"
	case target.name == l.name && l.inner:
		return ""
	case target.name == "test support" && l.name != "test support":
		return "which is for tests"
	case slices.Contains(l.may, "*") || slices.Contains(l.may, target.name):
		return ""
	case len(l.may) == 0:
		return "it may import no other package of ours"
	}
	return fmt.Sprintf("of %s; it may import %s", target.name, strings.Join(l.may, ", "))
}

func hasPrefix(list []string, imp string) bool {
	return slices.ContainsFunc(list, func(p string) bool { return imp == p || strings.HasPrefix(imp, p+"/") })
}
