package exectool

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"mulligan/internal/suggest"
	"mulligan/pkg/tool"
	"mulligan/pkg/tool/httptool"
)

// Load reads a file of declarations. An error names the file, and the line
// where it knows it.
func Load(path string) ([]*tool.Tool, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	folder, err := filepath.Abs(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	declarations, err := Parse(b)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	tools := make([]*tool.Tool, len(declarations))
	for i, d := range declarations {
		if tools[i], err = New(d, folder); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
	}
	return tools, nil
}

type file struct {
	Tools []Declaration `yaml:"tools"`
}

// Parse reads declarations from YAML. A field that is not known is an error,
// since a typing error must not become a default. It neither validates the
// declarations nor reads other files.
func Parse(b []byte) ([]Declaration, error) {
	var f file
	dec := yaml.NewDecoder(bytes.NewReader(b))
	dec.KnownFields(true)
	if err := dec.Decode(&f); err != nil {
		if errors.Is(err, io.EOF) {
			return nil, errors.New("no tools: give a list under tools")
		}
		return nil, plain(err)
	}
	if err := dec.Decode(new(any)); !errors.Is(err, io.EOF) {
		return nil, errors.New("more than one YAML document: give one")
	}
	if len(f.Tools) == 0 {
		return nil, errors.New("no tools: give a list under tools")
	}
	return f.Tools, nil
}

var (
	unknownField = regexp.MustCompile(`field (\S+) not found in type (?:exectool|httptool)\.(\w+)`)
	wrongKind    = regexp.MustCompile("cannot unmarshal !!(\\w+)(?: `(.*)`)? into (\\S+)")
)

// plain words what the decoder says in terms of Go.
func plain(err error) error {
	text := unknownField.ReplaceAllStringFunc(err.Error(), func(s string) string {
		m := unknownField.FindStringSubmatch(s)
		return fmt.Sprintf("field %s is not known%s", m[1], suggest.Meant(m[1], fields(m[2])))
	})
	text = wrongKind.ReplaceAllStringFunc(text, func(s string) string {
		m := wrongKind.FindStringSubmatch(s)
		got := strconv.Quote(m[2])
		if m[2] == "" {
			got = map[string]string{"seq": "a list", "map": "a mapping", "null": "nothing"}[m[1]]
		}
		return cmp.Or(got, "a value of type "+m[1]) + " is not " + wanted(m[3])
	})
	return errors.New(strings.NewReplacer("yaml: unmarshal errors:\n  ", "", "\n  ", "; ", "yaml: ", "").Replace(text))
}

// fields are the names that a mapping of a type may have.
func fields(goType string) []string {
	var out []string
	for _, t := range []reflect.Type{reflect.TypeFor[file](), reflect.TypeFor[Declaration](), reflect.TypeFor[httptool.Request]()} {
		for f := range t.Fields() {
			if name, _, _ := strings.Cut(f.Tag.Get("yaml"), ","); t.Name() == goType && name != "" {
				out = append(out, name)
			}
		}
	}
	return out
}

func wanted(goType string) string {
	switch goType {
	case "exectool.file":
		return "a mapping with a list under tools"
	case "[]exectool.Declaration":
		return "a list of tools"
	case "exectool.Declaration":
		return "a mapping that declares a tool"
	case "httptool.Request":
		return "a mapping that declares a request"
	case "[]string":
		return "a list of texts, such as [cat, -n]"
	case "map[string]string":
		return "a mapping of texts, such as {LANG: C}"
	case "map[int]declared.Rule":
		return "a mapping of numbers to outcomes, such as {75: unavailable}"
	case "int":
		return "a whole number"
	case "bool":
		return "true or false"
	}
	return "a text"
}

func readSchema(path string) (any, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var v any
	if err := yaml.Unmarshal(b, &v); err != nil { // JSON is YAML
		return nil, fmt.Errorf("%s: %w", path, plain(err))
	}
	return v, nil
}
