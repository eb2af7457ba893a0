package rules_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"mulligan/pkg/messages"
	"mulligan/pkg/recovery"
	"mulligan/pkg/recovery/rules"
)

const boatSchema = `{"type":"object","properties":{
	"boat_id":{"type":"string","description":"The boat, such as '#B0000'. It begins with #."},
	"harbour":{"type":"string","description":"Code of the harbour, such as 'KIE'"},
	"berth":{"type":"string","description":"such as 'Z1ABC'"},"skipper":{"type":"string","description":"e.g. 'ada_lo_17'"},
	"crew":{"type":"array","items":{"type":"object","properties":{"born":{"type":"string"},"cabin_number":{"type":"integer"},"first_line":{"type":"integer"},"last_line":{"type":"integer"}}}},
	"berths":{"type":"array","items":{"type":"string"}},"guests":{"type":"array","items":{"type":"string"}},
	"flags":{"type":"array","items":{"enum":["new york","oslo"]}},
	"stops":{"type":"string","description":"Harbours, separated by '|'"},"words":{"type":"string","description":"comma-separated list"},"free":{"type":"string"},
	"max_results":{"type":"integer"},"page_size":{"type":"integer","minimum":1,"maximum":50},"tip":{"type":"integer","maximum":9},"timeout_s":{"type":"number"},"fee_limit":{"type":"number"},"count":{"type":"integer"},"day":{"type":"string"},"mast":{"type":"number"},
	"sail":{"type":"string","pattern":"^[A-Z]{2}\\d$"}}}`

func boat(c *recovery.Case) { c.Schema = json.RawMessage(boatSchema) }

func schemaOnly(schema string) func(*recovery.Case) {
	return func(c *recovery.Case) { c.Schema = json.RawMessage(schema) }
}

func readOnlyBoat(c *recovery.Case) {
	boat(c)
	c.Effect = messages.ReadOnly
}

// What frameworks say of names and types, and what looks like it.
func TestComplaintsOfFrameworks(t *testing.T) {
	r := rules.New()
	for _, row := range []row{
		{name: "pydantic 1", input: `{"crew":[{"birth":"x","date_born":"y"}]}`, text: "1 validation error\nborn\n  field required (type=value_error.missing)", change: noSchema, rule: "parameter-name", fix: `{"crew":[{"birth":"x","born":"y"}]}`},
		{name: "pydantic in JSON", input: `{"filepath":"x"}`, text: `{"error":"1 validation error for Args\nfile_path\n  Field required [type=missing]"}`, change: noSchema, rule: "parameter-name", fix: `{"file_path":"x"}`},
		{name: "pydantic in a string of JSON", input: `{"filepath":"x"}`, text: `{"error":"1 validation error for Args\\nfile_path\\n  Field required [type=missing]"}`, change: noSchema, rule: "parameter-name", fix: `{"file_path":"x"}`},
		{name: "FastAPI", input: `{"qty":2}`, text: `{"detail":[{"type":"missing","loc":["body","quantity"],"msg":"Field required"}]}`, change: noSchema, rule: "parameter-name", fix: `{"quantity":2}`},
		{name: "ajv", input: `{"userName":"x"}`, text: "data must have required property 'user_name'", change: noSchema, rule: "parameter-name", fix: `{"user_name":"x"}`},
		{name: "zod 4", input: `{"lat":1}`, text: `[{"expected":"number","code":"invalid_type","path":["latitude"],"message":"Invalid input: expected number, received undefined"}]`, change: noSchema, rule: "parameter-name", fix: `{"latitude":1}`},
		{name: "Python, several", input: `{"desc":"x","tz":"y"}`, text: "f() missing 2 required positional arguments: 'description' and 'timezone'", change: noSchema, rule: "parameter-name", fix: `{"description":"x","timezone":"y"}`},
		{name: "serde", input: `{"userId":7}`, text: "missing field `user_id` at line 1", change: noSchema, rule: "parameter-name", fix: `{"user_id":7}`},
		{name: "Laravel", input: `{"gameMode":"x"}`, text: `{"game_mode":["The game mode field is required."]}`, change: noSchema, rule: "parameter-name", fix: `{"game_mode":"x"}`},
		{name: "FastMCP", input: `{"q":"x"}`, text: "1 validation error for call[search]\nquery\n  Missing required argument [type=missing_argument]", change: noSchema, rule: "parameter-name", fix: `{"query":"x"}`},
		{name: "AWS", input: `{"tableName":"x"}`, text: "Parameter validation failed:\nMissing required parameter in input: \"TableName\"\nUnknown parameter in input: \"tableName\", must be one of: TableName, Key", change: noSchema, rule: "parameter-name", fix: `{"TableName":"x"}`},
		{name: "Django", input: `{"emailAddress":"x"}`, text: `{"email":["This field is required."]}`, change: noSchema, rule: "parameter-name", fix: `{"email":"x"}`},
		{name: "Rails", input: `{"user_name":"x"}`, text: "param is missing or the value is empty: username", change: noSchema, rule: "parameter-name", fix: `{"username":"x"}`},
		{name: "jsonschema of Go", input: `{"q":"x","desc":"y"}`, text: `validating "arguments": validating root: required: missing properties: ["query" "description"]`, change: noSchema, rule: "parameter-name", fix: `{"description":"y","query":"x"}`},
		{name: "joi", input: `{"userName":"x"}`, text: `"user_name" is required`, change: noSchema, rule: "parameter-name", fix: `{"user_name":"x"}`},
		{name: "only one of two is there", input: `{"desc":"x"}`, text: "f() missing 2 required positional arguments: 'description' and 'owner'", change: noSchema, rule: "missing-input"},
		{name: "two that are near", input: `{"user":"x","userId":"y"}`, text: "missing required parameter: 'user_id'", change: noSchema, rule: "missing-input"},
		{name: "a name of the schema stays", input: `{"boat_id":"#B1"}`, text: "missing required parameter: 'id'", change: boat, rule: "missing-input"},
		{name: "what else is wrong there", input: `{"crew":[{"line_first":1,"line_last":2}]}`, text: "'first_line' is a required property", change: boat, rule: "missing-input"},
		{name: "what else is wrong there, near", input: `{"crew":[{"first":1,"last":2,"x":3}]}`, text: "missing required parameter: 'first_line'", change: func(c *recovery.Case) {
			c.Schema = json.RawMessage(strings.NewReplacer("first_line", "the_first", "last_line", "the_last").Replace(boatSchema))
			c.Error = "missing required parameter: 'the_first'"
		}, rule: "parameter-name", fix: `{"crew":[{"the_first":1,"the_last":2,"x":3}]}`},

		{name: "near in two objects", input: `{"a":{"user":"x"},"b":{"userId":"y"}}`, text: "missing required parameter: 'user_id'", change: noSchema, rule: "missing-input"},
		{name: "a name that means something else", input: `{"name":"x"}`, text: "missing required parameter: 'boat_name'", change: schemaOnly(`{"properties":{"name":{},"boat_name":{}}}`), rule: "missing-input"},
		{name: "among hundreds", input: `{"userId":1` + manyKeys(600) + `}`, text: "missing required parameter: 'user_id'", change: noSchema, rule: "missing-input"},
		{name: "what else is wrong, of a call that was not made", input: `{"first":1,"last":2}`, code: invalid, change: schemaOnly(`{"required":["the_first"],"properties":{"the_first":{},"the_last":{}}}`), rule: "parameter-name", fix: `{"the_first":1,"the_last":2}`},
		{name: "a list that would move and become a text", input: `{"stop":["a","b"]}`, code: invalid, change: schemaOnly(`{"required":["stops"],"properties":{"stops":{"type":"string","description":"comma-separated"}}}`), rule: "arguments"},

		{name: "not known, of the schema", input: `{"boatId":"#B1"}`, text: "f() got an unexpected keyword argument 'boatId'", change: boat, rule: "parameter-name", fix: `{"boat_id":"#B1"}`},
		{name: "not known, suggested", input: `{"colour":"red"}`, text: "f() got an unexpected keyword argument 'colour'. Did you mean 'color'?", change: noSchema, rule: "parameter-name", fix: `{"color":"red"}`},
		{name: "not known, listed", input: `{"userid":7}`, text: "unknown field `userid`, expected one of `user_id`, `group_id`", change: noSchema, rule: "parameter-name", fix: `{"user_id":7}`},
		{name: "jsonschema of Go, not known", input: `{"boatId":"#B1"}`, text: `unexpected additional properties ["boatId"]`, change: boat, rule: "parameter-name", fix: `{"boat_id":"#B1"}`},
		{name: "joi, not known", input: `{"boatId":"#B1"}`, text: `"boatId" is not allowed`, change: boat, rule: "parameter-name", fix: `{"boat_id":"#B1"}`},
		{name: "GraphQL", input: `{"boat_id":"#B1","skiper":"ada"}`, text: `Unknown argument "skiper" on field "sail". Did you mean "skipper"?`, change: boat, rule: "parameter-name", fix: `{"boat_id":"#B1","skipper":"ada"}`},
		{name: "not known, and there already", input: `{"colour":"red","color":"blue"}`, text: "f() got an unexpected keyword argument 'colour'. Did you mean 'color'?", change: noSchema, rule: "unknown"},
		{name: "not known, nothing near", input: `{"dry_run":true}`, text: "unexpected keyword argument 'dry_run'", change: boat, rule: "unknown"},

		{name: "ajv, a type", input: `{"mast":"3"}`, text: "data/mast must be number", change: boat, rule: "json-type", fix: `{"mast":3}`},
		{name: "jsonschema of Go, a type", input: `{"mast":"3"}`, text: `validating /properties/mast: type: 3 has type "string", want "number"`, change: boat, rule: "json-type", fix: `{"mast":3}`},
		{name: "another jsonschema of Go, a type", input: `{"crew":[{"cabin_number":"3"}]}`, text: `at '/crew/0/cabin_number': got string, want integer`, change: noSchema, rule: "json-type", fix: `{"crew":[{"cabin_number":3}]}`},
		{name: "AWS, a type", input: `{"Limit":"3"}`, text: "Invalid type for parameter Limit, value: 3, type: <class 'str'>, valid types: <class 'int'>", change: noSchema, rule: "json-type", fix: `{"Limit":3}`},
		{name: "Django, a type", input: `{"count":"3"}`, text: `{"count":["A valid integer is required."]}`, change: noSchema, rule: "json-type", fix: `{"count":3}`},
		{name: "Go, a type", input: `{"count":"3"}`, text: "json: cannot unmarshal string into Go struct field Args.count of type int64", change: noSchema, rule: "json-type", fix: `{"count":3}`},
		{name: "jsonschema, a type", input: `{"a":"3","b":"4"}`, text: "'4' is not of type 'integer'", change: noSchema, rule: "json-type", fix: `{"a":"3","b":4}`},
		{name: "jsonschema, which", input: `{"a":"3","b":"3"}`, text: "'3' is not of type 'integer'", change: noSchema, rule: "unaccepted"},
		{name: "jsonschema, a null", input: `{"a":null,"b":1}`, text: "None is not of type 'string'", change: noSchema, rule: "json-type", fix: `{"b":1}`},
		{name: "serde, a type", input: `{"a":"3"}`, text: `invalid type: string "3", expected u64 at line 1`, change: noSchema, rule: "json-type", fix: `{"a":3}`},
		{name: "plain words", input: `{"a":{"level":"3"}}`, text: "level must be an integer", change: noSchema, rule: "json-type", fix: `{"a":{"level":3}}`},
		{name: "plain words, no number", input: `{"level":"high"}`, text: "level must be an integer: high", change: noSchema, rule: "unaccepted"},
		{name: "plain words, in two places", input: `{"a":{"level":"3"},"b":{"level":"4"}}`, text: "level must be an integer", change: noSchema, rule: "unaccepted"},
		{name: "FastAPI, a type", input: `{"n":"3"}`, text: `{"detail":[{"type":"int_parsing","loc":["body","n"],"msg":"Input should be a valid integer, unable to parse"}]}`, change: noSchema, rule: "json-type", fix: `{"n":3}`},
		{name: "the schema says otherwise", input: `{"day":"3"}`, text: "day must be an integer", change: boat, rule: "unaccepted"},

		{name: "one text, by the description", input: `{"stops":["Kiel","Oslo"]}`, text: "stops must be a string", change: boat, rule: "list-as-text", fix: `{"stops":"Kiel|Oslo"}`},
		{name: "with commas", input: `{"words":["a","b"]}`, code: invalid, change: boat, rule: "list-as-text", fix: `{"words":"a,b"}`},
		{name: "no separator is said", input: `{"free":["Kiel","Oslo"]}`, code: invalid, change: boat, rule: "arguments"},
		{name: "a separator within", input: `{"stops":["Kiel|Holtenau","Oslo"]}`, code: invalid, change: boat, rule: "arguments"},
		{name: "a text that enumerates", input: `{"berths":"a1,a2"}`, code: invalid, change: boat, rule: "json-type", fix: `{"berths":["a1","a2"]}`},
		{name: "listed values", input: `{"flags":"oslo, oslo"}`, code: invalid, change: boat, rule: "json-type", fix: `{"flags":["oslo","oslo"]}`},
		{name: "one or several", input: `{"berths":"Paris, Texas"}`, code: invalid, change: boat, rule: "arguments"},
	} {
		checkRow(t, r, row)
	}
}

// Values that the error, or what the schema shows, can put right.
func TestValuesThatCanBePutRight(t *testing.T) {
	r := rules.New()
	for _, row := range []row{
		{name: "too many results", input: `{"max_results":500}`, text: "max_results must be between 1 and 100", change: boat, rule: "bound", fix: `{"max_results":100}`},
		{name: "pydantic", input: `{"max_results":0}`, text: "1 validation error\nmax_results\n  Input should be greater than or equal to 1 [type=greater_than_equal]", change: boat, rule: "bound", fix: `{"max_results":1}`},
		{name: "zod", input: `{"limit":500}`, text: `[{"code":"too_big","maximum":50,"type":"number","inclusive":true,"exact":false,"message":"no","path":["limit"]}]`, change: noSchema, rule: "bound", fix: `{"limit":50}`},
		{name: "jsonschema", input: `{"per_page":500,"page":2}`, text: "500 is greater than the maximum of 100", change: noSchema, rule: "bound", fix: `{"page":2,"per_page":100}`},
		{name: "joi", input: `{"limit":500}`, text: `"limit" must be less than or equal to 100`, change: noSchema, rule: "bound", fix: `{"limit":100}`},
		{name: "a schema of Go", input: `{"q":{"limit":500}}`, text: `at '/q/limit': maximum: got 500, want 100`, change: noSchema, rule: "bound", fix: `{"q":{"limit":100}}`},
		{name: "a bound of the schema", input: `{"page_size":500}`, code: invalid, change: boat, rule: "bound", fix: `{"page_size":50}`},
		{name: "a bound of the schema for money", input: `{"tip":50}`, code: invalid, change: boat, rule: "arguments"},
		{name: "a wait", input: `{"timeout_s":900}`, text: "timeout_s cannot exceed 60", change: boat, rule: "bound", fix: `{"timeout_s":60}`},
		{name: "a count that is only read", input: `{"count":50}`, text: "count must not exceed 20", change: readOnlyBoat, rule: "bound", fix: `{"count":20}`},
		{name: "a count that is bought", input: `{"count":50}`, text: "count must not exceed 20", change: boat, rule: "bound"},
		{name: "money", input: `{"fee_limit":900}`, text: "fee_limit cannot exceed 60", change: readOnlyBoat, rule: "bound"},
		{name: "a bound that is not allowed itself", input: `{"max_results":100}`, text: "100 is greater than or equal to the maximum of 100", change: boat, rule: "unaccepted"},
		{name: "within the bounds", input: `{"max_results":50}`, text: "max_results must be between 1 and 100", change: boat, rule: "unaccepted"},
		{name: "which number", input: `{"max_results":500,"timeout_s":500}`, text: "500 is greater than the maximum of 100", change: boat, rule: "unaccepted"},

		{name: "a sum with separators", input: `{"price":1200,"order_id":"#W1"}`, text: "total is $1,350.50, but received $1,200", rule: "amount", fix: `{"order_id":"#W1","price":1350.50}`},
		{name: "a sum, other words", input: `{"price":80,"order_id":"#W1"}`, text: "payments sum to 80 while the total is 95", rule: "amount", fix: `{"order_id":"#W1","price":95}`},
		{name: "no sum", input: `{"count":80,"order_id":"#W1"}`, text: "the total is 95", rule: "unknown"},

		{name: "perhaps you meant", input: `{"url":"example.org/x"}`, text: "Invalid URL 'example.org/x': No scheme supplied. Perhaps you meant https://example.org/x?", change: noSchema, rule: "suggested-value", fix: `{"url":"https://example.org/x"}`},
		{name: "maybe you meant", input: `{"path":"src/a.go"}`, text: "The path src/a.go is not an absolute path. Maybe you meant /home/src/a.go?", change: noSchema, rule: "suggested-value", fix: `{"path":"/home/src/a.go"}`},
		{name: "a question", input: `{"path":"src/a.go"}`, text: "src/a.go is not absolute. Did you mean to delete it?", change: noSchema, rule: "unknown"},

		{name: "pydantic, a list of values", input: `{"mode":"Fast"}`, text: "mode\n  Input should be 'slow', 'fast' or 'asleep' [type=literal_error, input_value='Fast']", change: noSchema, rule: "enum-case", fix: `{"mode":"fast"}`},
		{name: "zod, a list of values", input: `{"mode":"fst"}`, text: "Invalid enum value. Expected 'slow' | 'fast', received 'fst'", change: noSchema, rule: "enum-nearest", fix: `{"mode":"fast"}`},
		{name: "argparse", input: `{"mode":"FAST"}`, text: "argument --mode: invalid choice: 'FAST' (choose from 'slow', 'fast')", change: noSchema, rule: "enum-case", fix: `{"mode":"fast"}`},
		{name: "a value that is not spoken of", input: `{"memo":"yelow"}`, text: "the colour must be one of: red, yellow", change: noSchema, rule: "unaccepted"},
		{name: "values with commas", input: `{"city":"new york, ny"}`, text: "city must be one of 'New York, NY', 'Oslo, NO'", change: noSchema, rule: "enum-case", fix: `{"city":"New York, NY"}`},
		{name: "none is near", input: `{"mode":"sideways"}`, text: "Invalid enum value. Expected 'slow' | 'fast', received 'sideways'", change: noSchema, rule: "unaccepted"},

		{name: "a pattern of the error", input: `{"code":"kie"}`, text: "'kie' does not match '^[A-Z]{3}$'", change: noSchema, rule: "pattern", fix: `{"code":"KIE"}`},
		{name: "a pattern of the schema", input: `{"sail":"ab1"}`, code: invalid, change: boat, rule: "pattern", fix: `{"sail":"AB1"}`},
		{name: "a pattern that nothing fits", input: `{"sail":"abc"}`, code: invalid, change: boat, rule: "arguments"},
		{name: "a pattern, and who is meant", input: `{"one":"kie","two":"osl"}`, text: "a value does not match '^[A-Z]{3}$'", change: noSchema, rule: "state"},
		{name: "a pattern of something", input: `{"code":"kie"}`, text: "a value does not match '^[A-Z]{3}$'", change: noSchema, rule: "state"},
		{name: "a large pattern", input: `{"code":"kie"}`, text: "'kie' does not match '^[A-Z]{1,1000}$'", change: noSchema, rule: "state"},
		{name: "a day", input: `{"day":"May 7, 2031"}`, text: "day must be in the format YYYY-MM-DD", change: noSchema, rule: "date", fix: `{"day":"2031-05-07"}`},
		{name: "a day that can be read in two ways", input: `{"day":"05/07/2031"}`, text: "day must be in the format YYYY-MM-DD", change: noSchema, rule: "unaccepted"},
		{name: "days, of which one is named", input: `{"from":"7 May 2031","memo":"8 May 2031"}`, text: "from: use YYYY-MM-DD", change: noSchema, rule: "date", fix: `{"from":"2031-05-07","memo":"8 May 2031"}`},

		{name: "the mark of an id", input: `{"boat_id":"B1234"}`, text: "boat not found", change: boat, rule: "id-form", fix: `{"boat_id":"#B1234"}`},
		{name: "the case of an id", input: `{"skipper":"Ada_Lo_17"}`, text: "no skipper found", change: boat, rule: "id-form", fix: `{"skipper":"ada_lo_17"}`},
		{name: "a code", input: `{"harbour":"osl"}`, text: "Status Code: 404", change: boat, rule: "id-form", fix: `{"harbour":"OSL"}`},
		{name: "a name for a code", input: `{"harbour":"oslo"}`, text: "harbour not found", change: boat, rule: "not-found"},
		{name: "an id in its form", input: `{"boat_id":"#B1234"}`, text: "boat not found", change: boat, rule: "not-found"},
		{name: "a letter is no mark", input: `{"berth":"2ABC"}`, text: "berth not found", change: boat, rule: "not-found"},
		{name: "another id is named", input: `{"boat_id":"B1234","skipper":"ada_lo_99"}`, text: "ada_lo_99 not found", change: boat, rule: "not-found"},
		{name: "this id is named", input: `{"boat_id":"B1234","skipper":"Ada_Lo_99"}`, text: "B1234 not found", change: boat, rule: "id-form", fix: `{"boat_id":"#B1234","skipper":"Ada_Lo_99"}`},
		{name: "another kind of id", input: `{"boat_id":"C1234"}`, text: "boat not found", change: boat, rule: "not-found"},
		{name: "too long for an id", input: `{"boat_id":"B1234567"}`, text: "boat not found", change: boat, rule: "not-found"},

		{name: "what says nothing", input: `{"berths":["a","b",""],"guests":["x","y"]}`, text: "berths and guests must have the same length", change: boat, rule: "lengths", fix: `{"berths":["a","b"],"guests":["x","y"]}`},
		{name: "several in one text", input: `{"berths":["a,b"],"guests":["x","y"]}`, text: "the number of berths should match the guests", change: boat, rule: "lengths", fix: `{"berths":["a","b"],"guests":["x","y"]}`},
		{name: "one is missing, and one says nothing", input: `{"berths":["a","b",""],"guests":["x"]}`, text: "berths and guests must have the same length", change: boat, rule: "lengths"},
		{name: "one is missing", input: `{"berths":["a"],"guests":["x","y"]}`, text: "the number of berths should match the guests", change: boat, rule: "lengths"},
		{name: "none is there", input: `{"berths":[""],"guests":[]}`, text: "the number of berths should match the guests", change: boat, rule: "lengths"},
		{name: "which lists", input: `{"berths":["a",""],"guests":["x"],"z":["y"]}`, text: "the number of berths should match the guests", change: boat, rule: "lengths"},
	} {
		checkRow(t, r, row)
	}
}

func manyKeys(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `,"k%d":1`, i)
	}
	return b.String()
}

// What passes by itself, what looks like it, and whose fault things are.
func TestKindsOfFailures(t *testing.T) {
	r := rules.New()
	const call, tool, open = messages.FaultCall, messages.FaultTool, messages.Fault("")
	for _, c := range []struct {
		text, rule string
		fault      messages.Fault
	}{
		{"ReadTimeout: HTTPSConnectionPool: Read timed out.", "slow", tool},
		{"Connection timeout to host https://x", "slow", tool},
		{"Navigation timeout of 30 s exceeded", "slow", tool},
		{"TimeoutError", "slow", tool},
		{"rpc error: code = DEADLINE_EXCEEDED", "slow", tool},
		{"timeout must be positive", "unaccepted", call},
		{"timeout_ms is not valid", "unaccepted", call},
		{"net::ERR_CONNECTION_CLOSED at https://x", "network", tool},
		{"HTTPSConnectionPool: Max retries exceeded with url: /x", "network", tool},
		{"curl: (6) Could not resolve host: x", "network", tool},
		{"upstream connect error or disconnect", "network", tool},
		{"TypeError: Failed to fetch", "network", tool},
		{"Failed to fetch https://x: HTTP error 404", "not-found", call},
		{"400 Bad Request: the connection failed to be named", "unaccepted", call},
		{"The server is currently overloaded", "busy", tool},
		{"down for scheduled maintenance", "busy", tool},
		{"could not serialize access due to concurrent update", "busy", tool},
		{"the room is currently unavailable", "not-available", call},
		{"Internal Server Error", "server-error", tool},
		{"Too many concurrent requests", "rate-limit", tool},
		{"your plan does not include it: not subscribed", "no-permission", open},
		{"this function was retired", "gone", tool},
		{"The v1 endpoint has been removed", "gone", tool},
		{"HTTP 410", "gone", tool},
		{"HTTP 409: conflict", "state", call},
		{"HTTP 422: unprocessable", "unaccepted", call},
		{"Failed to retrieve the data", "unexplained", tool},
		{"Cannot find module 'x'", "environment", tool},
		{"no such table: projects", "environment", tool},
		{"No chart is currently selected", "prior-step", call},
		{"You must open a session first", "prior-step", call},
		{"old_str `a` did not appear verbatim in x", "text-not-found", call},
		{"Multiple occurrences of old_str `a`", "text-not-found", call},
		{"new part 7 not found or available", "not-available", call},
		{"Could not locate the account", "not-found", call},
		{"the ticket was already refunded", "state", call},
		{"ticket already refunded", "state", call},
		{"exceeds your available balance", "funds", call},
		{"number of guests does not match", "lengths", call},
		{"ls: x [exit_code=2]", "command-failed", call},
		{"Tool \"x\" exited with code 1 and no output", "command-failed", open},
		{"done [exit_code=0]", "unknown", open},
		{"the selected mode is invalid", "unaccepted", call},
		{"IndexError: list index out of range", "bug", tool},
		{"hm", "unknown", open},
		{"payment method not found", "not-found", call},
		{"string indices must be integers", "bug", tool},
		{"ValueError: the size is wrong", "unaccepted", call},
		{"x: No such file or directory [exit_code=1]", "command-failed", call},
		{"bash: x: command not found [exit_code=127]", "environment", tool},
		{"missing required parameter: 'x'", "missing-input", call},
		{"Exceeded 9 redirects", "redirect-loop", open},
		{"Expecting value: line 9 column 9 (char 99999)", "store-race", tool},
		{"Unknown tool: x", "tool-name", call},
		{"total is 7, but paid 8 and 9", "amount", call},
	} {
		got, err := r.Analyse(t.Context(), rowCase(row{text: c.text, input: `{"order_id":"#W1"}`}))
		if err != nil || got.Rule != c.rule || got.Fault != c.fault {
			t.Errorf("%s: rule %s, fault %q, %v; want %s, %q", c.text, got.Rule, got.Fault, err, c.rule, c.fault)
		}
	}
	for code, c := range map[messages.Code]struct {
		rule  string
		fault messages.Fault
	}{
		messages.CodePanic: {"panic", tool}, messages.CodeOutputTooLarge: {"output-too-large", call}, messages.CodeWorkerLost: {"lost", tool}, messages.CodeTimeout: {"timeout", tool},
		messages.CodeUnavailable: {"refused-for-now", tool}, messages.CodeToolNotFound: {"tool-name", call}, messages.CodeInvalidArguments: {"arguments", call},
	} {
		got, err := r.Analyse(t.Context(), rowCase(row{text: "x", code: code, input: `{"order_id":1.5,"x":[1]}`, change: func(c *recovery.Case) { c.Tool = "unheard" }}))
		if err != nil || got.Rule != c.rule || got.Fault != c.fault {
			t.Errorf("%s: rule %s, fault %q, %v; want %s, %q", code, got.Rule, got.Fault, err, c.rule, c.fault)
		}
	}
}

// Texts that complain of everything, about inputs that have much of it.
func TestComplaintsTakeBoundedTime(t *testing.T) {
	r := rules.New()
	many := func(what string) string { return strings.TrimSuffix(strings.Repeat(what+",", 16<<10/len(what)), ",") }
	texts := map[string]string{
		"names": "missing required parameter: 'born' ", "refused": "unexpected keyword argument 'x' Did you mean 'y'? ", "types": "x must be an integer, 'b' is not of type 'integer' ",
		"bounds": "x must be between 1 and 2 ", "list": "one of 'a', 'b' ", "pattern": "a does not match '^[a-z]{1,99}[a-z]{1,99}$' ", "day": "YYYY-MM-DD ", "ids": "not found ", "lengths": "same length ",
	}
	inputs := map[string]string{
		"numbers": `{"x":[` + many("99") + `]}`, "texts": `{"x":[` + many(`"May 7, 2031"`) + `]}`, "objects": `{"crew":[` + many(`{"x":99}`) + `]}`, "long": `{"x":"` + many("b1") + `"}`,
		"keys": `{` + many(`"born_x":1`) + `}`, "lists": `{"berths":["` + many("b1") + `"],"guests":["b"]}`,
	}
	for name, text := range texts {
		for kind, input := range inputs {
			bounded(t, name+", "+kind, func() {
				if _, err := r.Analyse(t.Context(), rowCase(row{text: strings.Repeat(text, 200), input: input, change: boat})); err != nil {
					t.Errorf("%s, %s: %v", name, kind, err)
				}
			})
		}
	}
}

// A step that is missing is a prerequisite, and may have a tool.
func TestAMissingStepNamesWhatMayMakeIt(t *testing.T) {
	c := rowCase(row{text: "No session is currently open", change: func(c *recovery.Case) {
		c.Tool = "chart/save"
		for _, name := range []string{"chart/save", "chart/create_chart", "chart/open", "chart/rename", "other/create_chart"} {
			c.Tools = append(c.Tools, messages.ToolSpec{Name: name})
		}
	}})
	got, err := rules.New().Analyse(t.Context(), c)
	if err != nil || got.Correction.Type != messages.PrerequisiteFix || got.IsRecoverable {
		t.Fatalf("%+v, %v", got, err)
	}
	if g := got.Correction.GuidanceText(); !strings.Contains(g, "chart/create_chart, chart/open;") || strings.Contains(g, "rename") || strings.Contains(g, "other") {
		t.Error(g)
	}
}
