package messages_test

import (
	"strings"
	"testing"
	"time"

	"mulligan/pkg/messages"
)

func TestCallID(t *testing.T) {
	before := time.Now().Truncate(time.Millisecond)
	id := messages.NewCallID()
	if err := messages.CheckCallID(id); err != nil {
		t.Fatal(err)
	}
	if at := messages.CallTime(id); at.Before(before) || at.After(time.Now()) {
		t.Errorf("CallTime(%s) = %s, made after %s", id, at, before)
	}
	if got, want := messages.CallTime(callID), time.Date(2026, 3, 1, 9, 30, 0, 0, time.UTC); !got.Equal(want) {
		t.Errorf("CallTime(%s) = %s, want %s", callID, got, want)
	}
	if !messages.CallTime("nonsense").IsZero() || !messages.CallTime("f81d4fae-7dec-41d0-a765-00a0c91e6bf6").IsZero() {
		t.Error("what is no call id has a time")
	}
}

func TestCheckCallIDRefuses(t *testing.T) {
	for _, id := range []string{
		"", "x", strings.ToUpper(callID), "{" + callID + "}", "urn:uuid:" + callID, strings.ReplaceAll(callID, "-", ""),
		"f81d4fae-7dec-41d0-a765-00a0c91e6bf6", callID + "\n", "00000000-0000-0000-0000-000000000000",
	} {
		if messages.CheckCallID(id) == nil {
			t.Errorf("%q is accepted", id)
		}
	}
}

func TestRun(t *testing.T) {
	for _, tc := range []struct {
		run   messages.Run
		named bool
		name  string
		ok    bool
	}{
		{messages.NamedRun("trip/42"), true, "trip/42", true},
		{messages.NamedRun("a"), true, "a", true},
		{messages.UnnamedRun(batchID), false, "", true},
		{messages.UnnamedRun("{" + batchID + "}"), false, "", false},
		{messages.UnnamedRun(strings.ToUpper(batchID)), false, "", false},
		{messages.UnnamedRun("x"), false, "", false},
		{messages.NamedRun(""), true, "", false},
		{"", false, "", false},
		{"a.b", true, "", false},
		{messages.NamedRun(strings.Repeat("x", messages.MaxName+1)), true, strings.Repeat("x", messages.MaxName+1), false},
	} {
		if tc.run.Named() != tc.named || tc.run.Name() != tc.name {
			t.Errorf("%.40q: named %t as %.40q, want %t, %.40q", tc.run, tc.run.Named(), tc.run.Name(), tc.named, tc.name)
		}
		if err := tc.run.Check(); (err == nil) != tc.ok {
			t.Errorf("%.40q: Check() = %v", tc.run, err)
		}
	}
}

// The ids of calls that are submitted under one are call ids, as old as that
// one, the same each time, and different for each index.
func TestDerivedCallIDs(t *testing.T) {
	base := messages.NewCallID()
	seen := map[string]bool{base: true}
	for i := range 1000 {
		id := messages.DerivedCallID(base, i)
		if err := messages.CheckCallID(id); err != nil || seen[id] || id != messages.DerivedCallID(base, i) || !messages.CallTime(id).Equal(messages.CallTime(base)) {
			t.Fatalf("call %d of %s: %s, %v", i, base, id, err)
		}
		seen[id] = true
	}
	if messages.DerivedCallID(base, 1) == messages.DerivedCallID(messages.NewCallID(), 1) {
		t.Fatal("two bases give the same id")
	}
}

// A key belongs to who gives it, whatever both are made of.
func TestKeysOfKeys(t *testing.T) {
	keys := map[string]bool{}
	for _, who := range []string{"a", "b", "a.b", "a b"} {
		for _, key := range []string{"", "a", "b.c", strings.Repeat("k", 255)} {
			keys[messages.SubmitterKey(who, key)] = true
		}
	}
	if len(keys) != 16 {
		t.Fatalf("%d keys of 16", len(keys))
	}
}
