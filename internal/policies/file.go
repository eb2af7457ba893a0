package policies

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"go.yaml.in/yaml/v3"

	"mulligan/pkg/messages"
	"mulligan/pkg/recovery"
)

// Parse reads a document that a person wrote, in YAML or JSON, and checks it.
// It is stricter than the wire: a key that is given twice is an error, since
// one of the two values would be lost without a word.
func Parse(text []byte) (json.RawMessage, recovery.Document, error) {
	raw, err := toJSON(text)
	if err != nil {
		return nil, recovery.Document{}, err
	}
	d, err := Check(raw)
	return raw, d, err
}

// maxFile bounds a file, in bytes; its comments do not count against the
// limit of the document.
const maxFile = 4 * messages.MaxPolicyDocument

func toJSON(text []byte) (raw json.RawMessage, err error) {
	if len(text) > maxFile {
		return nil, fmt.Errorf("the file is %d bytes long, the limit is %d", len(text), maxFile)
	}
	if text = bytes.TrimSpace(text); len(text) > 0 && text[0] == '{' && json.Valid(text) {
		return compact(text)
	}
	defer func() {
		if p := recover(); p != nil { // the parser has a fault
			raw, err = nil, fmt.Errorf("not YAML: %v", p)
		}
	}()
	dec := yaml.NewDecoder(bytes.NewReader(text))
	var whole any // finds keys that are given twice, and aliases that unfold without end
	switch err := dec.Decode(&whole); {
	case errors.Is(err, io.EOF), err == nil && whole == nil: // nothing, or a null
		return nil, errors.New("the file is empty; `mulligan policy clear` takes the policies of a pool away")
	case err != nil:
		return nil, fmt.Errorf("not YAML: %w", err)
	}
	if err := dec.Decode(&whole); !errors.Is(err, io.EOF) {
		return nil, errors.New("more than one document of YAML; write all into the first")
	}
	var root yaml.Node
	if err := yaml.Unmarshal(text, &root); err != nil {
		return nil, fmt.Errorf("not YAML: %w", err)
	}
	v, err := plainValue(root.Content[0]) // it holds something, see above
	if err != nil {
		return nil, fmt.Errorf("not YAML: %w", err)
	}
	return json.Marshal(v)
}

// plainValue is a value of YAML as JSON has it. Numbers stay as they are
// written, and a date is the text that it is written as.
func plainValue(n *yaml.Node) (any, error) {
	switch n.Kind {
	case yaml.MappingNode:
		m := map[string]any{}
		for i := 0; i+1 < len(n.Content); i += 2 {
			x, err := plainValue(n.Content[i+1])
			if err != nil {
				return nil, err
			}
			m[n.Content[i].Value] = x
		}
		return m, nil
	case yaml.SequenceNode:
		l := make([]any, len(n.Content))
		for i, e := range n.Content {
			var err error
			if l[i], err = plainValue(e); err != nil {
				return nil, err
			}
		}
		return l, nil
	case yaml.ScalarNode:
		return plainScalar(n)
	}
	return nil, fmt.Errorf("line %d: a value may not use the aliases of YAML; write it out", n.Line)
}

func plainScalar(n *yaml.Node) (any, error) {
	if n.ShortTag() == "!!timestamp" || n.ShortTag() == "!!str" {
		return n.Value, nil
	}
	if json.Valid([]byte(n.Value)) {
		return json.RawMessage(n.Value), nil // a number, true, false, null
	}
	var x any
	err := n.Decode(&x)
	return x, err
}

// compact takes white space out of JSON and refuses a key that is given twice.
func compact(text []byte) (json.RawMessage, error) {
	if err := unique(json.NewDecoder(bytes.NewReader(text))); err != nil {
		return nil, err
	}
	var out bytes.Buffer
	err := json.Compact(&out, text)
	return out.Bytes(), err
}

// unique reads one value of valid JSON.
func unique(d *json.Decoder) error {
	t, err := d.Token()
	if err != nil {
		return err
	}
	open, ok := t.(json.Delim)
	if !ok {
		return nil
	}
	for seen := map[string]bool{}; d.More(); {
		if open == '{' {
			key, err := d.Token()
			if err != nil {
				return err
			}
			name, _ := key.(string)
			if seen[name] {
				return fmt.Errorf("%q is given twice in one object; give it once", name)
			}
			seen[name] = true
		}
		if err := unique(d); err != nil {
			return err
		}
	}
	_, err = d.Token()
	return err
}

// YAML prints a document for people, in a form that [Parse] reads as the same.
func YAML(document json.RawMessage) ([]byte, error) {
	if len(document) == 0 {
		return []byte("{}\n"), nil
	}
	var root yaml.Node
	if err := yaml.Unmarshal(plain(document), &root); err != nil {
		return nil, fmt.Errorf("the document cannot be printed: %w", err)
	}
	flow(&root)
	var out bytes.Buffer
	enc := yaml.NewEncoder(&out)
	enc.SetIndent(2)
	err := errors.Join(enc.Encode(&root), enc.Close())
	return out.Bytes(), err
}

// flow takes the look of JSON from a document; what is empty keeps its braces.
func flow(n *yaml.Node) {
	n.Style = 0
	for _, c := range n.Content {
		flow(c)
	}
}
