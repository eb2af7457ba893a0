package llm_test

import (
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"mulligan/internal/modeltest"
	"mulligan/pkg/recovery/llm"
)

// server refuses what refuses says, with its text, and answers anything else.
func picky(refuses func(modeltest.Request) string) func(modeltest.Request) modeltest.Response {
	return func(r modeltest.Request) modeltest.Response {
		if text := refuses(r); text != "" {
			return modeltest.Refuses(400, text)
		}
		input := any(map[string]any{"to": "ZRH", "seats": 2})
		if strings.Contains(r.Raw, "as JSON in a string") {
			input = `{"to":"ZRH","seats":2}`
		}
		return modeltest.Says(answer(map[string]any{"correction": correction(map[string]any{"modified_input": input})}))
	}
}

// holdsTool: the schema of the answer holds that of the tool.
func holdsTool(r modeltest.Request) bool {
	return r.Format != nil && strings.Contains(string(r.Format.Schema.Schema), `"seats"`)
}

func TestS9_3_TheStrictestFormThatIsTaken(t *testing.T) {
	for name, c := range map[string]struct {
		refuses func(modeltest.Request) string
		forms   []string // of the requests of two questions
	}{
		"all is taken": {func(modeltest.Request) string { return "" }, []string{"json_schema+tool", "json_schema+tool"}},
		"not the tool's schema": {func(r modeltest.Request) string {
			if holdsTool(r) {
				return "Invalid schema for response_format 'failure_analysis': too deep"
			}
			return ""
		}, []string{"json_schema+tool", "json_schema", "json_schema"}},
		"no schema": {func(r modeltest.Request) string {
			if r.FormatType() == "json_schema" {
				return "'response_format.type' must be 'text' or 'json_object'"
			}
			return ""
		}, []string{"json_schema+tool", "json_schema", "json_object", "json_object"}},
		"nothing": {func(r modeltest.Request) string {
			if r.Format != nil {
				return "Unrecognized request argument supplied"
			}
			return ""
		}, []string{"json_schema+tool", "json_schema", "json_object", "", ""}},
	} {
		s := modeltest.Start(t, picky(c.refuses))
		r := reflector(t, s, nil)
		for range 2 {
			got, err := r.Analyse(t.Context(), failure())
			if err != nil || string(got.Correction.ModifiedInput) != `{"seats":2,"to":"ZRH"}` {
				t.Errorf("%s: %+v, %v", name, got, err)
			}
		}
		var forms []string
		for _, q := range s.Requests() {
			form := q.FormatType()
			if holdsTool(q) {
				form += "+tool"
			}
			forms = append(forms, form)
		}
		if strings.Join(forms, " ") != strings.Join(c.forms, " ") {
			t.Errorf("%s: %q, want %q", name, forms, c.forms)
		}
	}
}

// A schema that is refused is that of its tool; others are still embedded.
func TestARefusedSchemaIsThatOfItsTool(t *testing.T) {
	s := modeltest.Start(t, picky(func(r modeltest.Request) string {
		if holdsTool(r) {
			return "invalid json_schema"
		}
		return ""
	}))
	r := reflector(t, s, nil)
	other := failure()
	other.Schema = []byte(`{"type":"object","properties":{"to":{"type":"string"}},"required":["to"]}`)
	if _, err := r.Analyse(t.Context(), failure()); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Analyse(t.Context(), other); err != nil {
		t.Fatal(err)
	}
	all := s.Requests()
	last := all[len(all)-1]
	if len(all) != 3 || !strings.Contains(string(last.Format.Schema.Schema), `"modified_input":{"anyOf":[{"additionalProperties":false`) {
		t.Errorf("%d requests, the last with %s", len(all), last.Format.Schema.Schema)
	}
}

func TestWhatElseAnEndpointMayNotTake(t *testing.T) {
	for name, c := range map[string]struct {
		refuses func(modeltest.Request) string
		holds   func(modeltest.Request) bool // of the requests after the first
	}{
		"temperature": {func(r modeltest.Request) string {
			if r.Temperature != nil {
				return "Unsupported value: 'temperature' does not support 0 with this model."
			}
			return ""
		}, func(r modeltest.Request) bool { return r.Temperature == nil }},
		"max_tokens": {func(r modeltest.Request) string {
			if r.MaxTokens != 0 {
				return "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead."
			}
			return ""
		}, func(r modeltest.Request) bool { return r.MaxTokens == 0 && r.MaxNew == 2048 }},
		"system": {func(r modeltest.Request) string {
			if r.Messages[0].Role == "system" {
				return "Unsupported value: 'messages[0].role' does not support 'system' with this model."
			}
			return ""
		}, func(r modeltest.Request) bool {
			return len(r.Messages) == 1 && strings.Contains(r.User(), "never an instruction") && strings.Contains(r.User(), "\nTool: ")
		}},
	} {
		s := modeltest.Start(t, picky(c.refuses))
		r := reflector(t, s, nil)
		for range 2 {
			if _, err := r.Analyse(t.Context(), failure()); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		all := s.Requests()
		if len(all) != 3 || !c.holds(all[1]) || !c.holds(all[2]) || !holdsTool(all[2]) {
			t.Errorf("%s: %d requests, the last: %s", name, len(all), all[len(all)-1].Raw)
		}
	}
}

// A model of which the client library knows that it takes max_tokens no more.
func TestAModelThatTheLibraryKnows(t *testing.T) {
	s := modeltest.Start(t, always(modeltest.Says(answer(nil))))
	got, err := reflector(t, s, func(c *llm.Config) { c.Model = "gpt-5-mini" }).Analyse(t.Context(), failure())
	if err != nil || len(s.Requests()) != 1 || s.Requests()[0].MaxNew != 2048 || got.Usage.Requests != 1 {
		t.Errorf("%v, %d requests, %+v", err, len(s.Requests()), got.Usage)
	}
}

// Refusals that are about something else lead to no further request.
func TestOtherRefusalsEndTheQuestion(t *testing.T) {
	for _, text := range []string{
		"The requested model 'm-1' does not exist.", "Model m-1 is not supported. Supported models are a, b", "This model does not support effort level 'xhigh'.",
		"This model's maximum context length is 4096 tokens", "Invalid 'messages[1]'", "no",
	} {
		s := modeltest.Start(t, always(modeltest.Refuses(400, text)))
		_, err := reflector(t, s, nil).Analyse(t.Context(), failure())
		if err := internal(err, "status 400"); err != nil || len(s.Requests()) != 1 {
			t.Errorf("%s: %d requests, %v", text, len(s.Requests()), err)
		}
	}
}

// After a while the strictest form is tried again: endpoints learn.
func TestAFormIsForgotten(t *testing.T) {
	var forms []string
	old := true
	rt := inTime(func(r *http.Request) (*http.Response, error) {
		var b [1 << 16]byte
		n, _ := r.Body.Read(b[:])
		body := string(b[:n])
		form := "plain"
		for _, f := range []string{"json_object", "json_schema"} {
			if strings.Contains(body, `"type":"`+f+`"`) {
				form = f
			}
		}
		forms = append(forms, form)
		if old && form == "json_schema" {
			return withBody(response(400, "", http.Header{}), `{"error":"json_schema is not supported"}`), nil
		}
		return good(), nil
	})
	bubble(t, llm.Config{Transport: rt}, func(t *testing.T, r *llm.Reflector) {
		ask := func() {
			t.Helper()
			if _, err := r.Analyse(t.Context(), failure()); err != nil {
				t.Error(err)
			}
		}
		ask()
		old = false
		ask()
		<-time.After(61 * time.Minute)
		ask()
		ask()
	})
	if got := strings.Join(forms, " "); got != "json_schema json_schema json_object json_object json_schema json_schema" {
		t.Error(got)
	}
}

// Servers take a form and do not keep to it: an answer is read however it is
// wrapped, and is checked all the same.
func TestAnswersInWrappings(t *testing.T) {
	text := answer(map[string]any{"correction": correction(map[string]any{"modified_input": `{"to":"ZRH"}`})})
	for name, wrapped := range map[string]string{
		"a fence":    "Here it is:\n```json\n" + text + "\n```\nThat is all.",
		"thoughts":   "<think>{maybe} the {\"code\"}</think>\n" + text,
		"white":      "\n\n  " + text + "\n",
		"an object":  answer(map[string]any{"correction": correction(map[string]any{"modified_input": map[string]any{"to": "ZRH"}})}),
		"in a patch": answer(map[string]any{"correction": correction(map[string]any{"modified_input": []any{map[string]any{"op": "replace", "path": "/to", "value": "ZRH", "from": nil}, map[string]any{"op": "remove", "path": "/seats"}}})}),
	} {
		got, _, err := ask(t, failure(), modeltest.Says(wrapped))
		if err != nil || got.Correction == nil || string(got.Correction.ModifiedInput) != `{"to":"ZRH"}` {
			t.Errorf("%s: %+v, %v", name, got.Correction, err)
		}
	}
	parts := choice(`{"message":{"content":[{"type":"text","text":` + encode(text[:20]) + `},{"type":"text","text":` + encode(text[20:]) + `}]}}`)
	if got, _, err := ask(t, failure(), parts); err != nil || string(got.Correction.ModifiedInput) != `{"to":"ZRH"}` {
		t.Errorf("in parts: %+v, %v", got, err)
	}
}

// Of a long input only the change is asked for.
func TestALongInputIsPatched(t *testing.T) {
	c := failure()
	c.Schema = nil
	c.Input = []byte(encode(map[string]any{"to": "Zurich", "note": strings.Repeat("long ", 1000), "id": 9007199254740993}))
	c.Input = []byte(strings.Replace(string(c.Input), "9007199254740992", "9007199254740993", 1))
	patch := func(ops ...map[string]any) modeltest.Response {
		return modeltest.Says(answer(map[string]any{"correction": correction(map[string]any{"modified_input": ops})}))
	}
	got, s, err := ask(t, c, patch(map[string]any{"op": "replace", "path": "/to", "from": nil, "value": `"ZRH"`}))
	if err != nil {
		t.Fatal(err)
	}
	if want := strings.Replace(string(c.Input), "Zurich", "ZRH", 1); !equalJSON(want, string(got.Correction.ModifiedInput)) || !strings.Contains(string(got.Correction.ModifiedInput), "9007199254740993") {
		t.Errorf("%.200s", got.Correction.ModifiedInput)
	}
	if f := s.Requests()[0].Format; !strings.Contains(string(f.Schema.Schema), `"modified_input":{"anyOf":[{"type":"array"`) || !strings.Contains(s.Requests()[0].Messages[0].Content, "RFC 6902") {
		t.Errorf("%s", f.Schema.Schema)
	}
	for says, ops := range map[string][]map[string]any{
		"missing path":    {{"op": "replace", "path": "/nowhere/to", "from": nil, "value": "1"}},
		"33 operations":   make([]map[string]any, 33),
		"cannot be appli": {{"op": "copy", "path": "/a", "from": "/b", "value": nil}},
		"leaves is no ob": {{"op": "replace", "path": "", "from": nil, "value": "[5]"}},
	} {
		_, _, err := ask(t, c, patch(ops...))
		if err := internal(err, says); err != nil {
			t.Error(err)
		}
	}
}

// Many questions at once find the same manner, and none is lost meanwhile.
func TestManyQuestionsAtOnce(t *testing.T) {
	s := modeltest.Start(t, picky(func(r modeltest.Request) string {
		switch {
		case r.FormatType() == "json_schema":
			return "json_schema is not supported"
		case r.Temperature != nil:
			return "temperature is not supported"
		}
		return ""
	}))
	r := reflector(t, s, func(c *llm.Config) { c.RequestsPerMinute = -1 })
	var all sync.WaitGroup
	for range 16 {
		all.Go(func() {
			for range 4 {
				got, err := r.Analyse(t.Context(), failure())
				if err != nil || string(got.Correction.ModifiedInput) != `{"seats":2,"to":"ZRH"}` {
					t.Errorf("%+v, %v", got, err)
				}
			}
		})
	}
	all.Wait()
	if n := len(s.Requests()); n < 64+3 || n > 64+3*16 {
		t.Errorf("%d requests for 64 questions", n)
	}
}
