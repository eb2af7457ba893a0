package schema

import (
	"bufio"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
)

// corpus opens a file of the recorded data that is kept beside the repository
// and is no part of it.
func corpus(t *testing.T, name string) *bufio.Scanner {
	t.Helper()
	dir := os.Getenv("MULLIGAN_CORPUS")
	if dir == "" {
		dir = filepath.Join("..", "..", "..", "shared", "data")
	}
	f, err := os.Open(filepath.Join(dir, name))
	if err != nil {
		t.Skipf("no recorded data: set MULLIGAN_CORPUS to the folder that holds %s", name)
	}
	t.Cleanup(func() { _ = f.Close() })
	sc := bufio.NewScanner(f)
	sc.Buffer(nil, 16<<20)
	return sc
}

func TestPublicSchemaSuite(t *testing.T) {
	sc := corpus(t, "json_schema_tests.jsonl")
	n := 0
	for sc.Scan() {
		var c struct {
			Keyword, Group, Test string
			Schema, Data         json.RawMessage
			Valid                bool
		}
		if err := json.Unmarshal(sc.Bytes(), &c); err != nil {
			t.Fatal(err)
		}
		n++
		// An input is an object, so the case travels as a property.
		s, err := Compile(json.RawMessage(`{"$schema":"http://json-schema.org/draft-07/schema#","properties":{"v":` + string(c.Schema) + `}}`))
		if err != nil {
			t.Errorf("%s / %s: %v", c.Keyword, c.Group, err)
			continue
		}
		if err := s.Validate([]byte(`{"v":` + string(c.Data) + `}`)); (err == nil) != c.Valid {
			t.Errorf("%s / %s / %s: valid should be %v, got %v", c.Keyword, c.Group, c.Test, c.Valid, err)
		}
	}
	if err := sc.Err(); err != nil || n == 0 {
		t.Fatalf("%d cases, %v", n, err)
	}
	t.Logf("%d cases", n)
}

func TestRecordedToolSchemasCompile(t *testing.T) {
	sc := corpus(t, "tool_schemas.jsonl")
	n := 0
	for sc.Scan() {
		var c struct {
			Name       string
			Parameters json.RawMessage
		}
		if err := json.Unmarshal(sc.Bytes(), &c); err != nil {
			t.Fatal(err)
		}
		n++
		if _, err := Compile(c.Parameters); err != nil {
			t.Errorf("%s: %v", c.Name, err)
		}
	}
	t.Logf("%d schemas", n)
}

func TestStrictnessOfJSON(t *testing.T) {
	sc := corpus(t, "json_strictness.jsonl")
	s := mustCompile(t, "")
	n := 0
	for sc.Scan() {
		var c struct {
			Name, Expect, Raw string
			Base64            []byte `json:"raw_base64"`
		}
		if err := json.Unmarshal(sc.Bytes(), &c); err != nil {
			t.Fatal(err)
		}
		n++
		err := s.Validate([]byte(`{"v":` + c.Raw + string(c.Base64) + `}`))
		switch {
		case c.Expect != "accept" && c.Expect != "reject" && c.Expect != "either":
			t.Fatalf("%s: expect %q", c.Name, c.Expect)
		case c.Expect == "accept" && err != nil:
			t.Errorf("%s: %v", c.Name, err)
		case c.Expect == "reject" && err == nil:
			t.Errorf("%s: %q is taken", c.Name, c.Raw)
		}
	}
	if n == 0 {
		t.Fatal("no cases")
	}
	t.Logf("%d cases", n)
}
