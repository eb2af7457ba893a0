package e2e_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"mulligan/pkg/messages"
)

// wireVariable is the version that the commands of the next build write, 1 or
// 2; they read both, and say something new in everything that they write.
const wireVariable = "MULLIGAN_NEXT_WIRE"

// nextFile is what the next build has more, in pkg/messages.
const nextFile = `package messages

import (
	"cmp"
	"os"
)

var Version = cmp.Or(os.Getenv("` + wireVariable + `"), "1")

func reads(v string) bool { return v == "1" || v == "2" }
`

// nextChanges are its other changes to that package: by file, old and new text
// in turn. Each old text stands there once.
var nextChanges = map[string][]string{
	"header.go": {`const Version = "1"`, ``, `v != Version`, `!reads(v)`},
	"json.go": {
		`v.Version != Version`, `!reads(v.Version)`,
		`Header{HeaderVersion: {Version}}`, `Header{HeaderVersion: {Version}, "Mulligan-Novelty": {"1"}}`,
		"\t}\n\treturn b, nil\n", "\t}\n\treturn append([]byte(`{\"novelty\":{\"of\":[2]},`), b[1:]...), nil\n",
	},
	"call.go":   {`h.Set(HeaderVersion, Version)`, `h.Set(HeaderVersion, Version); h.Set("Mulligan-Novelty", "1")`},
	"result.go": {`h.Set(HeaderVersion, Version)`, `h.Set(HeaderVersion, Version); h.Set("Mulligan-Novelty", "1")`},
}

// nextBuild makes the commands of the next version of the wire, once.
var nextBuild = sync.OnceValues(func() (string, error) {
	dir := filepath.Join(binaries, "next")
	if err := os.Mkdir(dir, 0o700); err != nil {
		return "", err
	}
	pkg, err := filepath.Abs("../../pkg/messages")
	if err != nil {
		return "", err
	}
	changed := map[string]string{"next.go": nextFile}
	for file, pairs := range nextChanges {
		b, err := os.ReadFile(filepath.Join(pkg, file))
		if err != nil {
			return "", err
		}
		text := string(b)
		for i := 0; i < len(pairs); i += 2 {
			if strings.Count(text, pairs[i]) != 1 {
				return "", fmt.Errorf("%s: the next build changes a text that does not stand there once: %q", file, pairs[i])
			}
			text = strings.Replace(text, pairs[i], pairs[i+1], 1)
		}
		changed[file] = text
	}
	overlay := map[string]string{}
	for file, text := range changed {
		overlay[filepath.Join(pkg, file)] = filepath.Join(dir, file)
		if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
			return "", err
		}
	}
	list, err := json.Marshal(map[string]any{"Replace": overlay})
	if err != nil {
		return "", err
	}
	if err := os.WriteFile(filepath.Join(dir, "overlay.json"), list, 0o600); err != nil {
		return "", err
	}
	cmd := exec.Command("go", "build", "-buildvcs=false", "-overlay", filepath.Join(dir, "overlay.json"), "-o", dir, "mulligan/cmd/...")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the next version: %w\n%s", err, out)
	}
	return dir, nil
})

// nextCommand is a command of the next build, and its environment.
func nextCommand(t *testing.T, name, wire string) (path string, env []string) {
	t.Helper()
	dir, err := nextBuild()
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, name), []string{wireVariable + "=" + wire}
}

// newer starts a service of the next build, which writes that version.
func (c *cluster) newer(service, wire string, flags ...string) *process {
	c.t.Helper()
	path, env := nextCommand(c.t, service, wire)
	return c.launch(path, service+"-next", env, flags...)
}

// both starts a pool of this build, and beside each of its processes one of the
// next, which writes what this one reads.
func both(t *testing.T, lease time.Duration) *cluster {
	c := alone(t, lease)
	c.coordinator(0)
	c.run("reflector", 0)
	c.run("worker", 0, "--builtin", "--slots", "16")
	c.serving(1)
	c.ready(c.newer("coordinator", "1", "--policy", c.noBreaker()))
	c.ready(c.newer("reflector", "1"))
	c.newer("worker", "1", "--builtin", "--slots", "16")
	c.serving(2)
	return c
}

const failsOnce = `{"times":1,"kind":"retry_after","retry_after_ms":100,"text":"busy"}`

// TestTwoVersionsSideBySide runs two builds in one pool, the later of which
// says more in every header and body. Each reads what the other wrote, and
// ignores what it does not know.
func TestTwoVersionsSideBySide(t *testing.T) {
	t.Parallel()
	c := both(t, lease)
	var calls []messages.Submission
	for i := range 200 {
		calls = append(calls, call("echo", fmt.Sprintf(`{"i":%d}`, i)), call("fail", failsOnce))
	}
	c.submit(calls)
	e := c.results(calls, func(int) {})
	c.endedWith(e, messages.Succeeded, "")
	c.idle()
	c.onceEach(calls)

	met := map[string]int{} // who ran, decided, and went on with what
	for _, r := range e.results {
		met["ended on "+r.Worker]++
	}
	failures := c.recovery("failure")
	for id, ms := range c.recovery("decision") {
		d, err := messages.DecodeDecision(ms[0].Body)
		if err != nil {
			t.Fatal(err)
		}
		met[fmt.Sprintf("%s decided, on a novelty %t", d.Reflector, bytes.Contains(failures[id][0].Body, []byte(`"novelty"`)))]++
	}
	for _, name := range []string{"coordinator-0", "coordinator-next"} {
		met[name+" dispatched"] = strings.Count(c.log(name), `"msg":"call dispatched"`)
	}
	t.Log(met)
	for _, who := range []string{
		"ended on worker-0", "ended on worker-next", "coordinator-0 dispatched", "coordinator-next dispatched",
		"reflector-0 decided, on a novelty true", "reflector-0 decided, on a novelty false",
		"reflector-next decided, on a novelty true", "reflector-next decided, on a novelty false",
	} {
		if met[who] == 0 {
			t.Errorf("none %s", who)
		}
	}
	path, env := nextCommand(t, "mulligan", "1")
	c.newerSays(outside{name: "call of the next build", args: []string{"call", "fail", failsOnce}, env: env}, path, "succeeded")
}

func (c *cluster) log(name string) string {
	c.t.Helper()
	b, err := os.ReadFile(c.process(name).log)
	if err != nil {
		c.t.Fatal(err)
	}
	return string(b)
}

// newerSays runs a command of the next build.
func (c *cluster) newerSays(o outside, path, out string) {
	c.t.Helper()
	cmd := exec.Command(path, o.args...)
	cmd.Dir = c.dir
	cmd.Env = append(append(os.Environ(), o.env...), "MULLIGAN_SERVER="+c.url, "MULLIGAN_TOKEN="+c.token)
	stdout, stderr, code := runCommand(c.t, cmd)
	if code != o.code || !strings.Contains(stderr, o.says) || !strings.Contains(stdout, out) {
		c.t.Errorf("%s ended with %d and said %q and %.500q; want %d, %q and %q", o.name, code, stdout, stderr, o.code, out, o.says)
	}
}

// bothVersions is how a refusal names what it got and what it reads.
func bothVersions(text string) bool {
	return strings.Contains(text, `version "2"`) && strings.Contains(text, "reads version 1") ||
		strings.Contains(text, `Mulligan-Version: "2"`) && strings.Contains(text, "reads version 1")
}

// TestRequestsOfALaterVersionAreRefused: a submitter, a worker and any request
// that speak version 2 to a pool of version 1 are told both, and leave nothing.
func TestRequestsOfALaterVersionAreRefused(t *testing.T) {
	t.Parallel()
	c := alone(t, lease)
	c.ready(c.coordinator(0))
	c.run("worker", 0, "--builtin")
	c.serving(1)
	path, env := nextCommand(t, "mulligan", "2")
	c.newerSays(outside{name: "a later submitter", args: []string{"call", "echo", "{}"}, env: env, code: 1, says: `version "2"; this build reads version 1`}, path, "")
	p := c.newer("worker", "2", "--builtin")
	select {
	case <-p.done:
	case <-time.After(patience):
		t.Fatal("a later worker goes on offering")
	}
	if code := p.cmd.ProcessState.ExitCode(); code == 0 || !bothVersions(strings.ReplaceAll(c.log(p.name), `\"`, `"`)) {
		t.Errorf("a later worker ended with code %d and said:\n%s", code, c.log(p.name))
	}
	for _, endpoint := range []string{messages.EndpointSubmit, messages.EndpointOffer, messages.EndpointCancel, messages.EndpointAnswer, messages.EndpointPolicy, messages.EndpointBreaker} {
		reply, err := c.pool.Request(t.Context(), endpoint, []byte(`{"version":"2","novelty":1}`))
		if err != nil || !bothVersions(strings.ReplaceAll(string(reply), `\"`, `"`)) {
			t.Errorf("%s answered %s, %v", endpoint, reply, err)
		}
	}
	if waiting, unacked := c.backlog("default", messages.LaneNormal); waiting+unacked > 0 || len(c.ends()) > 0 {
		t.Errorf("refused requests left %d calls and %d results", waiting+unacked, len(c.ends()))
	}
}

// later is a message as version 2 would write it.
func later(m messages.Message, err error) messages.Message {
	if err != nil {
		panic(err) // never of what is made here
	}
	m.Header.Set(messages.HeaderVersion, "2")
	m.Body = bytes.Replace(m.Body, []byte(`"version":"1"`), []byte(`"version":"2"`), 1)
	return m
}

// laterCall is a call that stands in CALLS in version 2, and laterFailure one
// whose attempt 0 failed in version 2; both as nobody of version 1 may write them.
func (c *cluster) laterCall() messages.Call {
	c.t.Helper()
	k := c.strayCall("echo", `{"later":true}`)
	c.put(later(c.pool.Names().EncodeCall(k), nil))
	return k
}

func (c *cluster) laterFailure() messages.Call {
	c.t.Helper()
	k := c.strayCall("fail", failsOnce)
	c.put(later(c.pool.Names().EncodeFailure(messages.Failure{
		Call: k, Input: k.Input, Output: messages.Text("busy"), Code: messages.CodeRateLimited, Error: "busy", NothingDone: true, RetryAfter: 100,
		Executed: true, Worker: "worker-later", Started: time.Now(), At: time.Now(),
	})))
	return k
}

func (c *cluster) strayCall(tool, input string) messages.Call {
	id := messages.NewCallID()
	return messages.Call{ID: id, Run: messages.UnnamedRun(id), Tool: tool, Queue: "default", Lane: messages.LaneNormal, Effect: messages.Idempotent, Key: id, Input: messages.Text(input)}
}

func (c *cluster) put(m messages.Message) {
	c.t.Helper()
	if err := c.pool.Publish(c.t.Context(), m); err != nil {
		c.t.Fatal(err)
	}
}

// result waits for the result of a call.
func (c *cluster) result(k messages.Call) messages.Result {
	c.t.Helper()
	return c.results([]messages.Submission{{Call: k.ID}}, func(int) {}).results[k.ID]
}

// TestALaterVersionIsLeftToWhoReadsIt: calls and a failure of version 2 are not
// settled by those of version 1 that meet them, and go on with those beside them
// that read both.
func TestALaterVersionIsLeftToWhoReadsIt(t *testing.T) {
	t.Parallel()
	c := both(t, 4*time.Second)
	var calls []messages.Call
	for range 8 {
		calls = append(calls, c.laterCall())
	}
	f := c.laterFailure()
	for _, k := range calls {
		if r := c.result(k); r.Status != messages.Succeeded || r.Worker != "worker-next" {
			t.Errorf("a call of version 2 ended %s on %s: %s, %s", r.Status, r.Worker, r.Reason, r.Output.Inline)
		}
	}
	if r := c.result(f); r.Status != messages.Succeeded || r.Dispatch != 1 {
		t.Errorf("a call that had failed in version 2 ended %s in dispatch %d: %s, %s", r.Status, r.Dispatch, r.Reason, r.Output.Inline)
	}
	t.Logf("of %d calls of version 2, worker-0 handed on %d times; reflector-0 left the failure %d times",
		len(calls), strings.Count(c.log("worker-0"), "a call cannot be read"), strings.Count(c.log("reflector-0"), "a failure cannot be read"))
	if !strings.Contains(c.log("worker-0"), "a call cannot be read") {
		t.Error("worker-0 has met no call of version 2")
	}
}

// TestALaterVersionThatNobodyReadsEnds: what nobody reads is not lost either,
// once there was time for somebody to come. Its result says why.
func TestALaterVersionThatNobodyReadsEnds(t *testing.T) {
	t.Parallel()
	c := alone(t, lease)
	c.coordinator(0)
	c.run("reflector", 0)
	c.run("worker", 0, "--builtin", "--slots", "16")
	c.serving(1)
	k, f := c.laterCall(), c.laterFailure()
	for what, k := range map[string]messages.Call{"call": k, "failure": f} {
		r := c.result(k)
		if !r.IsError || r.Status == messages.Succeeded || !bothVersions(string(r.Output.Inline)) {
			t.Errorf("a %s of version 2 ended %s: %s, %s", what, r.Status, r.Reason, r.Output.Inline)
		}
	}
	c.idle()
}
