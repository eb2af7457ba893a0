package tools_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os"
	"reflect"
	"testing"

	"mulligan/examples/shop/corpus/corpustest"
	"mulligan/examples/shop/tools"
)

// Our schemas ask for what the recorded ones do, descriptions aside.
func TestSchemasAsRecorded(t *testing.T) {
	text, err := os.ReadFile(corpustest.File(t, "tool_schemas.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	recorded := make(map[string]any)
	lines := bufio.NewScanner(bytes.NewReader(text))
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var tool struct {
			Name, Server string
			Parameters   any
		}
		if err := json.Unmarshal(lines.Bytes(), &tool); err != nil {
			t.Fatal(err)
		}
		switch tool.Server {
		case "tau-retail":
			recorded["retail/"+tool.Name] = undescribed(tool.Parameters)
		case "tau-airline":
			recorded["airline/"+tool.Name] = undescribed(tool.Parameters)
		}
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	if len(recorded) != 30 {
		t.Errorf("the corpus has %d tools of the shop", len(recorded))
	}
	for _, s := range tools.Tools() {
		var ours any
		if err := json.Unmarshal(s.Schema, &ours); err != nil {
			t.Fatal(err)
		}
		if ours = undescribed(ours); !reflect.DeepEqual(ours, recorded[s.Name]) {
			t.Errorf("%s: ours is %v, recorded is %v", s.Name, ours, recorded[s.Name])
		}
	}
}

// undescribed takes the descriptions out of a schema.
func undescribed(schema any) any {
	switch s := schema.(type) {
	case map[string]any:
		plain := make(map[string]any)
		for key, value := range s {
			if _, isText := value.(string); key != "description" || !isText {
				plain[key] = undescribed(value)
			}
		}
		return plain
	case []any:
		plain := make([]any, len(s))
		for i := range s {
			plain[i] = undescribed(s[i])
		}
		return plain
	default:
		return schema
	}
}
