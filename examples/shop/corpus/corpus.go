// Package corpus reads recorded tool calls of agents: a file of JSON lines, one
// call each, beside the folder of the database that they were made on.
package corpus

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Where things stand in the folder of a corpus.
const (
	File = "tool_calls.jsonl"
	Data = "tau" // the six tables of the shop
)

// Call is one recorded call. Fields that it does not name are left out.
type Call struct {
	Labels
	Source string          `json:"source"` // where it was published
	Domain string          `json:"domain"`
	Run    string          `json:"run_id"`
	Seq    int             `json:"seq"` // orders the calls of a run
	Tool   string          `json:"tool"`
	Input  json.RawMessage `json:"input"`
	// Output is what the tool gave back. Long ones are cut, see [SameText].
	Output  string `json:"output"`
	IsError bool   `json:"is_error"`
	// ErrorText is the whole output of a failing call.
	ErrorText string `json:"error_text"`
	// Replay says whether the call fails in the same way when its run is made
	// again from fresh state; empty where that was not tried.
	Replay string `json:"replay"`
	// InputCut says that Input is not all of what the tool was given.
	InputCut bool `json:"input_truncated"`

	place int // within its run, from 1
}

// replaySame is the value of Replay that promises the same failure.
const replaySame = "same"

// Replays says that the call fails, and fails in the same way when its run is
// made again from fresh state.
func (c Call) Replays() bool { return c.IsError && c.Replay == replaySame }

// Want is what the call answered.
func (c Call) Want() string {
	if c.IsError && c.ErrorText != "" {
		return c.ErrorText
	}
	return c.Output
}

// Ref names the call within the corpus: its run and its place there, from 1.
func (c Call) Ref() string { return fmt.Sprintf("%s#%d", c.Run, c.place) }

// domainPrefix is what the corpus puts before the domains of the shop.
const domainPrefix = "tau-"

// InShop says whether the call was made in a domain that the shop has.
func (c Call) InShop() bool {
	return c.Domain == domainPrefix+"retail" || c.Domain == domainPrefix+"airline"
}

// FullTool is the tool as the shop calls it: the domain, a slash, and its name.
func (c Call) FullTool() string { return strings.TrimPrefix(c.Domain, domainPrefix) + "/" + c.Tool }

// Run is what one agent did, in the order in which it did it.
type Run []Call

// Open reads the runs of a folder.
func Open(folder string) ([]Run, error) {
	runs, err := OpenFile(filepath.Join(folder, File))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w; give the folder that holds %s and %s", err, File, Data)
	}
	return runs, err
}

// OpenFile reads the runs of a file.
func OpenFile(path string) (runs []Run, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("recorded calls: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	runs, err = Read(f)
	if err != nil {
		return nil, fmt.Errorf("recorded calls %s: %w", f.Name(), err)
	}
	return runs, nil
}

// MaxLine is the size in bytes of the longest line that is read.
const MaxLine = 16 << 20

// Read reads runs, in the order of their first calls. The calls of a run are
// put into the order in which they were made.
func Read(r io.Reader) ([]Run, error) {
	at := make(map[string]int)
	var runs []Run
	in := bufio.NewScanner(r)
	in.Buffer(nil, MaxLine)
	number := 0
	for in.Scan() {
		number++
		if len(bytes.TrimSpace(in.Bytes())) == 0 {
			continue
		}
		c, err := parse(in.Bytes())
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", number, err)
		}
		i, ok := at[c.Run]
		if !ok {
			i = len(runs)
			at[c.Run], runs = i, append(runs, nil)
		}
		runs[i] = append(runs[i], c)
	}
	if errors.Is(in.Err(), bufio.ErrTooLong) {
		return nil, fmt.Errorf("line %d is longer than %d MiB, the limit", number+1, MaxLine>>20)
	}
	inOrder(runs)
	return runs, in.Err()
}

func parse(line []byte) (Call, error) {
	var c Call
	var wrong *json.UnmarshalTypeError
	if err := json.Unmarshal(line, &c); errors.As(err, &wrong) && wrong.Field != "" {
		return c, fmt.Errorf("%s cannot be a %s", strings.TrimPrefix(wrong.Field, "Labels."), wrong.Value)
	} else if err != nil {
		return c, err
	}
	switch {
	case c.Run == "":
		return c, errors.New("run_id is missing")
	case c.IsError && c.Tool == "":
		return c, errors.New("tool is missing, of a call that failed")
	case c.Input == nil && c.InShop():
		return c, errors.New("input is missing")
	}
	return c, nil
}

func inOrder(runs []Run) {
	for _, run := range runs {
		slices.SortStableFunc(run, func(a, b Call) int { return a.Seq - b.Seq })
		for i := range run {
			run[i].place = i + 1
		}
	}
}

// Select returns the runs of the shop of which a call is wanted.
func Select(runs []Run, wanted func(Call) bool) []Run {
	var out []Run
	for _, run := range runs {
		if run[0].InShop() && slices.ContainsFunc(run, wanted) {
			out = append(out, run)
		}
	}
	return out
}

// Calls are those of all runs, run after run.
func Calls(runs []Run) []Call {
	var out []Call
	for _, run := range runs {
		out = append(out, run...)
	}
	return out
}
