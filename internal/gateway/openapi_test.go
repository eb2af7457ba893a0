package gateway

import (
	"bytes"
	"encoding/json"
	"fmt"
	"mime"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// described is the document, for tests: every request that a test sends and
// every answer to it is held against it.
var described = sync.OnceValue(func() *description {
	raw, err := document()
	if err != nil {
		panic(err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		panic(err)
	}
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	c.DefaultDraft(jsonschema.Draft2020)
	if err := c.AddResource("openapi.json", doc); err != nil {
		panic(err)
	}
	return &description{doc: doc.(map[string]any), compiler: c, compiled: make(map[string]*jsonschema.Schema)}
})

type description struct {
	doc      map[string]any
	mu       sync.Mutex
	compiler *jsonschema.Compiler
	compiled map[string]*jsonschema.Schema
}

// at follows names from the root; references are followed too. It gives the
// pointer to what it found.
func (d *description) at(names ...string) (v any, pointer string) {
	v, pointer = d.doc, "#"
	for _, n := range names {
		m, ok := v.(map[string]any)
		if !ok {
			return nil, ""
		}
		v, ok = m[n]
		if !ok {
			return nil, ""
		}
		pointer += "/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(n)
		if m, ok := v.(map[string]any); ok && m["$ref"] != nil {
			pointer = m["$ref"].(string)
			v, _ = d.at(strings.Split(strings.TrimPrefix(pointer, "#/"), "/")...)
		}
	}
	return v, pointer
}

// hold validates a text against the schema at a pointer.
func (d *description) hold(t *testing.T, what, pointer, text string) {
	t.Helper()
	d.mu.Lock()
	defer d.mu.Unlock()
	s := d.compiled[pointer]
	if s == nil {
		var err error
		if s, err = d.compiler.Compile("openapi.json" + pointer); err != nil {
			t.Fatalf("%s: %v", pointer, err)
		}
		d.compiled[pointer] = s
	}
	v, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
	if err != nil {
		t.Errorf("%s: %v: %.300s", what, err, text)
		return
	}
	if err := s.Validate(v); err != nil {
		t.Errorf("%s is not as described: %v\n%.500s", what, err, text)
	}
}

// check holds a request and its answer against the document.
func (d *description) check(t *testing.T, pattern string, request *http.Request, body string, a answer) {
	t.Helper()
	method, path, _ := strings.Cut(pattern, " ")
	if path == "" { // it went nowhere
		d.hold(t, "a problem", "#/components/schemas/Problem", a.body)
		return
	}
	operation := []string{"paths", path, strings.ToLower(method)}
	if op, _ := d.at(operation...); op == nil {
		t.Errorf("%s is not described", pattern)
		return
	}
	if a.status < 300 && body != "" {
		d.media(t, "the request of "+pattern, append(slices.Clone(operation), "requestBody"), request.Header.Get("Content-Type"), body)
	}
	status := strconv.Itoa(a.status)
	if v, _ := d.at(append(slices.Clone(operation), "responses", status)...); v == nil {
		status = "default"
	}
	if content, _ := d.at(append(slices.Clone(operation), "responses", status, "content")...); content == nil && a.body == "" {
		return
	}
	d.media(t, fmt.Sprintf("the answer %d of %s", a.status, pattern), append(slices.Clone(operation), "responses", status), a.header.Get("Content-Type"), a.body)
}

func (d *description) media(t *testing.T, what string, place []string, given, text string) {
	t.Helper()
	media, _, err := mime.ParseMediaType(given)
	if err != nil {
		t.Errorf("%s: media type %q: %v", what, given, err)
		return
	}
	schema, _ := d.at(append(place, "content", media, "schema")...)
	if schema == nil {
		t.Errorf("%s: %s is not described", what, media)
		return
	}
	_, pointer := d.at(append(place, "content", media, "schema")...)
	if !strings.Contains(media, "json") {
		return
	}
	if media == typeLines || strings.Contains(what, "/v1/batches") && strings.HasPrefix(what, "the request") {
		for i, line := range strings.Split(text, "\n") {
			if strings.TrimSpace(line) != "" && json.Valid([]byte(line)) {
				d.hold(t, fmt.Sprintf("line %d of %s", i, what), pointer, line)
			}
		}
		return
	}
	d.hold(t, what, pointer, text)
}

// Every route is described, and nothing else is.
func TestRoutesAreThoseOfTheDocument(t *testing.T) {
	var have, want []string
	for _, r := range new(Gateway).table() {
		have = append(have, fmt.Sprintf("%s open=%v", r.pattern, r.open))
	}
	ids := make(map[string]bool)
	for path, item := range described().doc["paths"].(map[string]any) {
		for method, op := range item.(map[string]any) {
			if method == "parameters" {
				continue
			}
			o := op.(map[string]any)
			security, own := o["security"].([]any)
			want = append(want, fmt.Sprintf("%s %s open=%v", strings.ToUpper(method), path, own && len(security) == 0))
			id, _ := o["operationId"].(string)
			if id == "" || ids[id] || o["summary"] == nil {
				t.Errorf("%s %s: operationId %q, summary %v", method, path, id, o["summary"])
			}
			ids[id] = true
		}
	}
	slices.Sort(have)
	slices.Sort(want)
	if !slices.Equal(have, want) {
		t.Errorf("served %v\ndescribed %v", have, want)
	}
}

// What a handler takes as a parameter of the query is described, and the other
// way round: each described one is taken, and another one is refused.
func TestParametersAreThoseOfTheDocument(t *testing.T) {
	s := serve(t, nil)
	d := described()
	for path, item := range d.doc["paths"].(map[string]any) {
		for method := range item.(map[string]any) {
			if method == "parameters" {
				continue
			}
			var names []string
			list, _ := d.at("paths", path, method, "parameters")
			params, _ := list.([]any)
			for _, p := range params {
				m := p.(map[string]any)
				if ref, ok := m["$ref"].(string); ok {
					v, _ := d.at(strings.Split(strings.TrimPrefix(ref, "#/"), "/")...)
					m = v.(map[string]any)
				}
				if m["in"] == "query" {
					names = append(names, m["name"].(string))
				}
			}
			at := strings.NewReplacer("{run}", "r", "{call}", "0198c0de-0000-7000-8000-000000000000").Replace(path)
			for _, n := range append(names, "nosuch") {
				a := s.ask(strings.ToUpper(method), at+"?"+n+"=%20", "")
				taken := !strings.Contains(a.body, "the parameter is not known here") && !strings.Contains(a.body, "takes no parameters")
				if open := path == "/v1/health" || path == "/v1/openapi.json"; taken != (n != "nosuch" || open) {
					t.Errorf("%s %s: parameter %s: %d %s", method, path, n, a.status, a.body)
				}
			}
		}
	}
}

// Every reference of the document leads somewhere, every schema compiles, and
// what a description refers to is used.
func TestTheDocumentHoldsTogether(t *testing.T) {
	d := described()
	raw, err := document()
	if err != nil {
		t.Fatal(err)
	}
	used := make(map[string]bool)
	var walk func(v any)
	walk = func(v any) {
		switch v := v.(type) {
		case map[string]any:
			if ref, ok := v["$ref"].(string); ok {
				used[ref] = true
				if to, _ := d.at(strings.Split(strings.TrimPrefix(ref, "#/"), "/")...); to == nil {
					t.Errorf("%s leads nowhere", ref)
				}
			}
			for _, x := range v {
				walk(x)
			}
		case []any:
			for _, x := range v {
				walk(x)
			}
		}
	}
	walk(d.doc)
	for kind, list := range d.doc["components"].(map[string]any) {
		for name := range list.(map[string]any) {
			pointer := "#/components/" + kind + "/" + name
			if kind != "securitySchemes" && !used[pointer] {
				t.Errorf("%s is not used", pointer)
			}
			if kind != "schemas" {
				continue
			}
			if _, err := d.compiler.Compile("openapi.json" + pointer); err != nil {
				t.Errorf("%s: %v", pointer, err)
			}
		}
	}
	s := serve(t, nil)
	if a := s.ask("GET", "/v1/openapi.json", ""); strings.TrimSpace(a.body) != string(raw) {
		t.Errorf("served %.200s", a.body)
	}
}

// The document is one of OpenAPI 3.1: it is held against the schema that the
// specification publishes (spec.openapis.org/oas/3.1/schema/2026-08-03). What it
// leaves to JSON Schema, the schemas, TestTheDocumentHoldsTogether compiles.
func TestTheDocumentIsOpenAPI(t *testing.T) {
	text, err := os.ReadFile("testdata/openapi-3.1.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	meta, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	if err := c.AddResource("meta.json", meta); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("meta.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Validate(described().doc); err != nil {
		t.Error(err)
	}
}
