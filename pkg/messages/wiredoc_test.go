package messages_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mulligan/pkg/messages"
)

func readWireDoc(t *testing.T) (path, text string) {
	t.Helper()
	path = filepath.Join("..", "..", "docs", "wire.md")
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return path, string(b)
}

// TestWireDocShowsTheGoldenFiles holds docs/wire.md to the code: each example
// there stands between a line "<!-- golden: NAME -->" and the end of a fence.
func TestWireDocShowsTheGoldenFiles(t *testing.T) {
	path, was := readWireDoc(t)
	doc := was
	for _, f := range forms() {
		want, err := os.ReadFile(filepath.Join("testdata", f.name+".golden"))
		if err != nil {
			t.Fatal(err)
		}
		marker := "<!-- golden: " + f.name + " -->\n```\n"
		before, rest, ok := strings.Cut(doc, marker)
		shown, after, closed := strings.Cut(rest, "```\n")
		switch {
		case !ok || !closed:
			t.Errorf("docs/wire.md has no example of %s; it stands after %q", f.name, marker)
		case *update:
			doc = before + marker + string(want) + "```\n" + after
		case shown != string(want):
			t.Errorf("docs/wire.md shows another %s (-file +doc); -update writes it anew\n%s", f.name, cmp.Diff(string(want), shown))
		}
	}
	if doc != was {
		if err := os.WriteFile(path, []byte(doc), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// TestWireDocNamesEverything: a header, code, endpoint or limit that the page
// leaves out cannot be used by a stranger.
func TestWireDocNamesEverything(t *testing.T) {
	_, doc := readWireDoc(t)
	src, err := os.ReadFile("header.go")
	if err != nil {
		t.Fatal(err)
	}
	headers := regexp.MustCompile(`= "(Mulligan-[A-Za-z-]+|traceparent)"`).FindAllStringSubmatch(string(src), -1)
	if len(headers) < 30 {
		t.Fatalf("header.go names %d headers; has its form changed?", len(headers))
	}
	var want []string
	for _, h := range headers {
		want = append(want, "| `"+h[1]+"` |")
	}
	for _, c := range messages.Codes() {
		want = append(want, "| `"+string(c)+"` |")
	}
	for _, e := range []string{messages.EndpointSubmit, messages.EndpointOffer, messages.EndpointCancel, messages.EndpointPolicy} {
		want = append(want, "**`"+e+"`**")
	}
	for _, n := range []int{
		messages.MaxInline, messages.MaxPayload, messages.PayloadChunk, messages.MaxHeaders, messages.MaxTaskHeader, messages.MaxText, messages.MaxLabels,
		messages.MaxErrorText, messages.MaxStderr, messages.MaxChunkCalls, messages.MaxChunkBytes, messages.MaxName, messages.MaxQueueName, messages.MaxFreeWaits,
		messages.MaxPolicy, messages.MaxPolicyDocument,
	} {
		want = append(want, grouped(n))
	}
	for _, w := range want {
		if !strings.Contains(doc, w) {
			t.Errorf("docs/wire.md does not say %s", w)
		}
	}
}

// grouped writes 16384 as 16,384.
func grouped(n int) string {
	s := strconv.Itoa(n)
	if n < 1000 {
		return s
	}
	return grouped(n/1000) + "," + s[len(s)-3:]
}
