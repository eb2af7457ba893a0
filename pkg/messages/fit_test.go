package messages

import (
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

func TestTextsAreCutToTheirEncodedSize(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := strings.ToValidUTF8(rapid.String().Draw(t, "s"), "?")
		limit := rapid.IntRange(2, 40).Draw(t, "limit")
		start, end := fit(s, limit, textSize), fitEnd(s, limit, textSize)
		if !strings.HasPrefix(s, start) || !strings.HasSuffix(s, end) || !utf8.ValidString(start) || !utf8.ValidString(end) {
			t.Fatalf("%q and %q of %q", start, end, s)
		}
		for _, part := range []string{start, end} {
			if n := (Body{Inline: []byte(part)}).EncodedSize() - len(`{"text":}`); n > limit {
				t.Fatalf("%q takes %d bytes, the limit is %d", part, n, limit)
			}
		}
	})
}

// The beginning of an error says what went wrong, the end of stderr.
func TestAFailureKeepsTheStartOfItsErrorAndTheEndOfStderr(t *testing.T) {
	long := "start" + strings.Repeat("x", 2*MaxErrorText) + "end"
	f := Failure{
		Call: Call{ID: NewCallID(), Run: NamedRun("r"), Tool: "t", Queue: "q", Lane: LaneNormal, Effect: Unsafe, Key: "k"},
		Code: CodeToolError, Error: long, Stderr: long,
	}
	check := func(t *testing.T, got Failure) {
		t.Helper()
		if !strings.HasPrefix(got.Error, "start") || len(got.Error) != MaxErrorText-2 {
			t.Errorf("error: %d bytes, from %q", len(got.Error), got.Error[:5])
		}
		if !strings.HasSuffix(got.Stderr, "end") || len(got.Stderr) != MaxStderr-2 {
			t.Errorf("stderr: %d bytes, to %q", len(got.Stderr), got.Stderr[len(got.Stderr)-3:])
		}
	}
	m, err := Pool{}.EncodeFailure(f)
	if err != nil {
		t.Fatal(err)
	}
	got, err := DecodeFailure(m.Body)
	if err != nil {
		t.Fatal(err)
	}
	check(t, got)

	late, err := EncodeStory("s", Late{Why: "late", Failure: &f})
	if err != nil {
		t.Fatal(err)
	}
	read, err := DecodeStory[Late](late.Body)
	if err != nil {
		t.Fatal(err)
	}
	check(t, *read.Failure)
	if f.Error != long {
		t.Error("the caller's failure was changed")
	}
}

func TestTombstonesAreReadAsWritten(t *testing.T) {
	if code, why := ParseTombstone(Tombstone(CodeCancelled, "no: never")); code != CodeCancelled || why != "no: never" {
		t.Errorf("%q, %q", code, why)
	}
	if code, why := ParseTombstone("corrected"); code != "corrected" || why != "" {
		t.Errorf("%q, %q", code, why)
	}
	if code, _ := ParseTombstone(""); code != "" {
		t.Errorf("a start that is none has the code %q", code)
	}
}
