package mcptool_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"mulligan/internal/fuzztest"
	"mulligan/pkg/messages"
	"mulligan/pkg/tool/mcptool"
)

func variables(name string) (string, bool) {
	v, ok := map[string]string{"TOKEN": "s3cr3t", "EMPTY": "", "HOME": "/home/ada"}[name]
	return v, ok
}

func parse(t *testing.T, text string) []mcptool.Config {
	t.Helper()
	servers, err := mcptool.Parse([]byte(text), "/folder", variables)
	if err != nil {
		t.Fatal(err)
	}
	return servers
}

func TestTheDialectsOfOtherClients(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		ok   func(c mcptool.Config) bool
	}{
		"Claude Desktop": {
			`{"globalShortcut":"x","mcpServers":{"s":{"command":"npx","args":["-y","p","${HOME}/d"],"env":{"K":"${TOKEN}"}}}}`,
			func(c mcptool.Config) bool {
				return c.Name == "s" && c.Command == "npx" && strings.Join(c.Args, " ") == "-y p /home/ada/d" && c.Env["K"] == "s3cr3t" && c.URL == ""
			},
		},
		"Cursor": {
			`{"mcpServers":{"s":{"url":"https://example.com/mcp","headers":{"Authorization":"Bearer ${env:TOKEN}"}}}}`,
			func(c mcptool.Config) bool {
				return c.URL == "https://example.com/mcp" && !c.SSE && c.Headers["Authorization"] == "Bearer s3cr3t"
			},
		},
		"VS Code": {
			"{\n  // comments\n  \"servers\":{\"s\":{\"type\":\"stdio\",\"command\":\"python3\",\"args\":[\"s.py\"],\"cwd\":\"sub\",},},\n}",
			func(c mcptool.Config) bool { return c.Command == "python3" && c.Dir == "/folder/sub" },
		},
		"VS Code over HTTP": {
			`{"servers":{"s":{"type":"http","url":"http://${HOST:-localhost}:1/mcp"}}}`,
			func(c mcptool.Config) bool { return c.URL == "http://localhost:1/mcp" && !c.SSE },
		},
		"others over HTTP": {
			`{"mcpServers":{"s":{"transport":"streamable_http","url":"http://h/mcp","autoApprove":["x"],"description":"d"}}}`,
			func(c mcptool.Config) bool { return c.URL == "http://h/mcp" && !c.SSE },
		},
		"the older HTTP": {
			`{"mcpServers":{"s":{"type":"sse","url":"http://h/sse"},"t":{"command":"x","disabled":true}}}`,
			func(c mcptool.Config) bool { return c.URL == "http://h/sse" && c.SSE },
		},
		"extras": {
			`{"mcpServers":{"s":{"command":"x","mulligan":{"include":["a*"],"exclude":["ab"],"prefix":"","queue":"q","processes":3,"restart":"never",
				"trust":true,"effects":{"a":"idempotent"},"timeout":"20s","start_timeout":"5s"}}}}`,
			func(c mcptool.Config) bool {
				return c.Include[0] == "a*" && c.Exclude[0] == "ab" && *c.Prefix == "" && c.Queue == "q" && c.Processes == 3 && c.Restart == mcptool.RestartNever &&
					c.Trust && c.Effects["a"] == messages.Idempotent && c.Timeout == 20*time.Second && c.StartTimeout == 5*time.Second
			},
		},
	} {
		servers := parse(t, c.text)
		if len(servers) != 1 || !c.ok(servers[0]) {
			t.Errorf("%s: %+v", name, servers)
		}
	}
}

func TestVariables(t *testing.T) {
	for text, want := range map[string]string{
		"${TOKEN}": "s3cr3t", "${env:TOKEN}": "s3cr3t", "${NONE:-x y}": "x y", "${EMPTY:-d}": "d", "${TOKEN:-d}": "s3cr3t", "a${TOKEN}b$c": "as3cr3tb$c", "${EMPTY}": "", "$TOKEN": "$TOKEN",
	} {
		if got := parse(t, `{"mcpServers":{"s":{"command":"x","args":["`+text+`"]}}}`)[0].Args[0]; got != want {
			t.Errorf("%s is %q, want %q", text, got, want)
		}
	}
}

func TestAConfigurationThatCannotBeUsedSaysWhy(t *testing.T) {
	server := func(fields string) string { return `{"mcpServers":{"s":{` + fields + `}}}` }
	for text, says := range map[string]string{
		``:                               "not JSON",
		`[]`:                             "not an object with mcpServers",
		`{}`:                             "no servers: give an object under mcpServers",
		`{"mcpServers":{},"servers":{}}`: "no servers",
		`{"mcpServers":{"a":{}},"servers":{"b":{}}}`:                         "both given",
		`{"mcpServers":{"a":{"disabled":true}}}`:                             "all of its servers are disabled",
		server(`"comand":"x"`):                                               `server "s": field comand is not known; did you mean "command"?`,
		server(`"command":"x","timeout":"3s"`):                               `field timeout belongs under mulligan`,
		server(`"command":"x","mulligan":{"timeout":3}`):                     "not a duration in quotes",
		server(`"command":"x","mulligan":{"exclud":[]}`):                     `did you mean "exclude"?`,
		server(`"command":7`):                                                "command is a number, not a text",
		server(`"command":"x","args":"y"`):                                   "args is a string, not a list of texts",
		server(``):                                                           "neither command nor url",
		server(`"command":"x","url":"http://h"`):                             "both given",
		server(`"command":"x","headers":{"A":"b"}`):                          "headers belong to a server with a url",
		server(`"command":"x","type":"http"`):                                "type is http, and command is given",
		server(`"command":"x","type":"carrier-pigeon"`):                      "give stdio, http or sse",
		server(`"url":"ftp://h"`):                                            "is not an address",
		server(`"url":"http://ada:s3cr3t@h"`):                                "url holds a user",
		server(`"url":"http://h","mulligan":{"processes":2}`):                "processes belongs to a server that is a command",
		server(`"url":"http://h","env":{"A":"b"}`):                           "args, env and cwd belong",
		server(`"url":"http://h","headers":{"a b":"c"}`):                     "not the name of a header",
		server(`"command":"${NONE}"`):                                        "command: the variable NONE is not set",
		server(`"command":"x","env":{"K":"${NONE}"}`):                        "env: K: the variable NONE is not set",
		server(`"command":"x","args":["${input:key}"]`):                      "${input:key} cannot be filled in",
		server(`"command":"x","args":["${NONE:-${TOKEN}}"]`):                 "cannot be filled in",
		server(`"command":"x","env":{"A=B":"c"}`):                            "not the name of a variable",
		server(`"command":"x","mulligan":{"processes":65}`):                  "processes is 65: give 1 to 64",
		server(`"command":"x","mulligan":{"restart":"sometimes"}`):           "give always or never",
		server(`"command":"x","mulligan":{"effects":{"a":"harmless"}}`):      "harmless",
		server(`"command":"x","mulligan":{"timeout":"-3s"}`):                 "timeout is -3s",
		`{"mcpServers":{"` + strings.Repeat("n", 70) + `":{"command":"x"}}}`: "give another one with queue",
	} {
		_, err := mcptool.Parse([]byte(text), "/", variables)
		if err == nil || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), "s3cr3t") {
			t.Errorf("%s: %v, want %q in it", text, err, says)
		}
	}
}

func TestLoadNamesTheFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "mcp.json")
	if err := os.WriteFile(path, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := mcptool.Load(path); err == nil || !strings.Contains(err.Error(), path) {
		t.Error(err)
	}
	servers, err := mcptool.Load("../../../examples/mcp.json")
	if err != nil || len(servers) != 2 {
		t.Errorf("%+v, %v", servers, err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add(`{"mcpServers":{"s":{"command":"npx","args":["${HOME}"],"mulligan":{"effects":{"*":"unsafe"}}}}}`)
	f.Add(`{"servers":{"s":{"url":"http://${A:-h}/","headers":{"A":"${env:TOKEN}"}}}, // x` + "\n}")
	f.Fuzz(func(t *testing.T, text string) {
		fuzztest.Bounded(t, len(text), func() {
			servers, err := mcptool.Parse([]byte(text), "/", variables)
			if err == nil && len(servers) == 0 {
				t.Error("no servers and no error")
			}
			for _, s := range servers {
				if err := s.WithDefaults().Validate(); err != nil {
					t.Errorf("what was read cannot be used: %v", err)
				}
			}
		})
	})
}

func FuzzLooksLikeResult(f *testing.F) {
	f.Add([]byte(`{"content":[{"type":"text","text":"x"}]}`))
	f.Add([]byte(`{"structuredContent":{}}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		fuzztest.Bounded(t, len(b), func() { _ = mcptool.LooksLikeResult(b) })
	})
}
