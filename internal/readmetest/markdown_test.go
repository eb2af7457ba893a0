package readmetest

import (
	"maps"
	"slices"
	"strings"
	"testing"
)

const sample = "# A page: of `code`\n\nSee [there](x/y.md#z), [here](#a-page-of-code), [far](https://example.com), `[not](this)`.\n\n" +
	"<!-- run -->\n```sh\necho `no span` [no](link)\n```\n\n```text\nout\n```\n\n## It's 2 · two\n"

func TestPagesAreRead(t *testing.T) {
	blocks := Blocks(sample)
	want := []Block{{Line: 6, Lang: "sh", Mark: "run", Text: "echo `no span` [no](link)\n"}, {Line: 10, Lang: "text", Text: "out\n"}}
	if !slices.Equal(blocks, want) {
		t.Errorf("blocks %+v", blocks)
	}
	if got := Spans(sample); !slices.Equal(got, []string{"code", "[not](this)"}) {
		t.Errorf("spans %q", got)
	}
	if got := Links(sample); !slices.Equal(got, []Link{{"there", "x/y.md", "z"}, {"here", "", "a-page-of-code"}}) {
		t.Errorf("links %+v", got)
	}
	if got := slices.Sorted(maps.Keys(Anchors(sample))); !slices.Equal(got, []string{"a-page-of-code", "its-2--two"}) {
		t.Errorf("anchors %q", got)
	}
}

func TestMissing(t *testing.T) {
	const got = "a table   of 2\nid 01a22cec-de36-7ef8-920e-975bcdfc8d4d ends\nlast (1+1)\n"
	for _, tc := range []struct{ want, missing string }{
		{"a table   of 2", ""},
		{"a table … 2\n\nlast (1+1)", ""},
		{"id 00000000-0000-0000-0000-000000000000 ends", ""},
		{"… ends", ""},
		{"table   of 2", "table   of 2"},
		{"last (1+1)\na … 2", "a … 2"},
		{"last (1+1)\nlast (1+1)", "last (1+1)"},
		{"last .*", "last .*"},
	} {
		if miss := Missing(tc.want, got); miss != tc.missing {
			t.Errorf("%q: %q is missing, want %q", tc.want, miss, tc.missing)
		}
	}
}

func TestDeclared(t *testing.T) {
	names, err := Declared([]byte("package x\ntype T[P any] struct{}\nfunc (t *T[P]) M() {}\nfunc (t U) N() {}\nfunc F() {}\nconst (\n\tA = 1\n)\nvar b, c int\n"))
	if got := slices.Sorted(maps.Keys(names)); err != nil || strings.Join(got, " ") != "A F T T.M U.N b c" {
		t.Errorf("%q, %v", got, err)
	}
}
