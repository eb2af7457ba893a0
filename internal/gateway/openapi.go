package gateway

import (
	_ "embed"
	"encoding/json"
	"net/http"

	"go.yaml.in/yaml/v3"
)

//go:embed openapi.yaml
var openapiYAML []byte

// document is the description of the gateway as OpenAPI 3.1 has it, as JSON. It
// is part of the program, and its test reads it too.
func document() ([]byte, error) {
	var v any
	if err := yaml.Unmarshal(openapiYAML, &v); err != nil {
		return nil, err
	}
	return json.Marshal(v)
}

func (x *exchange) openapi() error {
	b, err := document()
	if err != nil {
		return err
	}
	x.raw(http.StatusOK, b)
	return nil
}
