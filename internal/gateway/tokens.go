package gateway

import (
	"bytes"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	"golang.org/x/time/rate"

	"mulligan/internal/mcpserver"
	"mulligan/pkg/client"
	"mulligan/pkg/messages"
)

// Tokens are those who may ask. They are read once.
type Tokens struct{ list []*Token }

// Token is somebody who may ask, and how much.
type Token struct {
	Name string `yaml:"name"`
	// SHA256 is that of the token, in hexadecimal digits. Plain is the token
	// itself, in a file that nobody but its owner reads.
	SHA256 string `yaml:"sha256"`
	Plain  string `yaml:"token"`
	// Tools and Queues that may be called; a tool of either list. None of both: all.
	Tools  []string `yaml:"tools"`
	Queues []string `yaml:"queues"`
	// May is what else is allowed: answer, cancel and declare.
	May    []string `yaml:"may"`
	Rate   float64  `yaml:"rate"`    // requests a second; 0 means 100
	AtOnce int      `yaml:"at_once"` // requests under way at a time; 0 means 100
	Calls  int      `yaml:"calls"`   // of one request; 0 means 1,000,000

	sum    [sha256.Size]byte
	rate   *rate.Limiter
	slots  chan struct{}
	client *client.Client
	mcp    *mcpserver.Server
	// mcpHTTP serves mcp.
	mcpHTTP http.Handler
}

// What a token may do beside calling and reading.
const (
	mayAnswer = "answer"
	mayCancel = "cancel"
	// mayDeclare is to say something about runs: what holds for their calls, and
	// that no call comes any more.
	mayDeclare = "declare"
)

func entitlements() []string { return []string{mayAnswer, mayCancel, mayDeclare} }

// leastToken is the shortest token that is taken, in bytes: short ones can be guessed.
const leastToken = 20

// maxTokens bounds the file of tokens, in bytes.
const maxTokens = 1 << 20

// LoadTokens reads a file of tokens. One that holds tokens as they are must not
// be readable by others than its owner.
func LoadTokens(path string) (*Tokens, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(io.LimitReader(f, maxTokens+1))
	if err != nil {
		return nil, err
	}
	if len(text) > maxTokens { // a token may be held to some tools by what follows
		return nil, fmt.Errorf("tokens %s: is longer than %d bytes", path, maxTokens)
	}
	t, plain, err := parseTokens(text)
	switch {
	case err != nil:
		return nil, fmt.Errorf("tokens %s: %w", path, err)
	case plain && info.Mode().Perm()&0o077 != 0:
		return nil, fmt.Errorf("tokens %s: holds tokens as they are and can be read by others (%s): chmod 600, or give sha256 in place of token", path, info.Mode().Perm())
	}
	return t, nil
}

func parseTokens(text []byte) (t *Tokens, plain bool, err error) {
	var file struct {
		Tokens []*Token `yaml:"tokens"`
	}
	dec := yaml.NewDecoder(bytes.NewReader(text))
	dec.KnownFields(true)
	if err := dec.Decode(&file); err != nil {
		return nil, false, fmt.Errorf("is no list of tokens: %w", err)
	}
	if err := dec.Decode(new(any)); !errors.Is(err, io.EOF) {
		return nil, false, errors.New("holds more than one document; list all tokens under the first tokens:")
	}
	if len(file.Tokens) == 0 {
		return nil, false, errors.New("holds no token; tokens: [{name: …, sha256: …}]")
	}
	names, sums := map[string]bool{}, map[[sha256.Size]byte]bool{}
	for i, k := range file.Tokens {
		if k == nil {
			return nil, false, fmt.Errorf("token %d is empty", i)
		}
		if err := k.prepare(); err != nil {
			return nil, false, fmt.Errorf("token %d (%q): %w", i, k.Name, err)
		}
		if names[k.Name] || sums[k.sum] {
			return nil, false, fmt.Errorf("token %d (%q): its name or its token is that of another one too", i, k.Name)
		}
		names[k.Name], sums[k.sum] = true, true
		plain = plain || k.Plain != ""
		k.Plain = ""
	}
	return &Tokens{file.Tokens}, plain, nil
}

// prepare checks a token and makes what it is limited by.
func (k *Token) prepare() error {
	if err := messages.CheckName("name", k.Name, 64); err != nil {
		return err
	}
	switch sum, err := hex.DecodeString(k.SHA256); {
	case (k.Plain == "") == (k.SHA256 == ""):
		return errors.New("give token or sha256, one of the two")
	case k.Plain != "" && len(k.Plain) < leastToken:
		return fmt.Errorf("token is %d bytes long, and can be guessed; give %d or more, such as openssl rand -hex 32 prints", len(k.Plain), leastToken)
	case k.Plain != "":
		k.sum = sha256.Sum256([]byte(k.Plain))
	case err != nil || len(sum) != sha256.Size:
		return errors.New("sha256 is not 64 hexadecimal digits, as sha256sum prints them")
	default:
		copy(k.sum[:], sum)
	}
	for _, m := range k.May {
		if !slices.Contains(entitlements(), m) {
			return fmt.Errorf("may: %q is none of %s", m, strings.Join(entitlements(), ", "))
		}
	}
	if k.Rate < 0 || math.IsNaN(k.Rate) || k.AtOnce < 0 || k.Calls < 0 {
		return errors.New("rate, at_once and calls are 0 for the default, or more")
	}
	k.limit()
	return nil
}

func (k *Token) limit() {
	if k.Rate == 0 {
		k.Rate = 100
	}
	if k.AtOnce == 0 {
		k.AtOnce = 100
	}
	if k.Calls == 0 {
		k.Calls = 1_000_000
	}
	k.rate = rate.NewLimiter(rate.Limit(k.Rate), int(max(1, min(k.Rate, 1e6))))
	k.slots = make(chan struct{}, k.AtOnce)
}

// anybody is who asks where there are no tokens.
func anybody() *Token {
	k := &Token{Name: "local", May: entitlements(), Rate: 1e6, AtOnce: 1000}
	k.limit()
	return k
}

// find gives the token that was shown; nil for none. It takes as long for one
// that is nearly right.
func (t *Tokens) find(shown string) *Token {
	sum := sha256.Sum256([]byte(shown))
	var found *Token
	for _, k := range t.list {
		if subtle.ConstantTimeCompare(sum[:], k.sum[:]) == 1 {
			found = k
		}
	}
	return found
}

func (k *Token) may(what string) bool { return slices.Contains(k.May, what) }

// restricted says that there are tools that it may not call.
func (k *Token) restricted() bool { return len(k.Tools) > 0 || len(k.Queues) > 0 }
