package porttest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"mulligan/pkg/messages"
)

func bucketCases() []Case {
	return []Case{
		{"save is a compare-and-set", save},
		{"save of many at a time has one winner", saveRace},
		{"save after a delete expects nothing again", saveAfterDelete},
		{"put takes the last", put},
		{"a value without a ttl outlives one with", ttlTakenBack},
		{"a value for ever outlives the age of its bucket", forEver},
		{"entries match a filter", entries},
		{"keys of runs and calls are keys", keys},
		{"entries are erased", entriesErased},
	}
}

const bucket = messages.BucketAttempts

func entriesErased(e *Env) {
	for _, key := range []string{"r.a", "r.b", "rr.a"} {
		_, err := e.B.Save(e.Ctx, bucket, key, []byte("x"), 0, 0)
		e.must(err)
	}
	for i, want := range []int64{2, 0} {
		if n, err := e.B.EraseEntries(e.Ctx, bucket, "r.>"); err != nil || n != want {
			e.Fatalf("try %d erased %d, %v", i, n, err)
		}
	}
	if e.loaded("r.a")+e.loaded("r.b") != "" || e.loaded("rr.a") != "x" {
		e.Fatal("not what was to go is gone")
	}
	_, err := e.B.Save(e.Ctx, bucket, "r.a", []byte("again"), 0, 0)
	e.must(err)
}

func (e *Env) loaded(key string) string {
	e.Helper()
	v, err := e.B.Load(e.Ctx, bucket, key)
	if errors.Is(err, messages.ErrNotFound) {
		return ""
	}
	e.must(err)
	return string(v.Value)
}

func save(e *Env) {
	if _, err := e.B.Load(e.Ctx, bucket, "r.c"); !errors.Is(err, messages.ErrNotFound) {
		e.Fatalf("load of nothing: %v", err)
	}
	if _, err := e.B.Save(e.Ctx, bucket, "r.c", []byte("x"), 7, 0); !errors.Is(err, messages.ErrConflict) {
		e.Fatalf("a revision of nothing: %v", err)
	}
	first, err := e.B.Save(e.Ctx, bucket, "r.c", []byte("one"), 0, 0)
	e.must(err)
	if _, err := e.B.Save(e.Ctx, bucket, "r.c", []byte("x"), 0, 0); !errors.Is(err, messages.ErrConflict) {
		e.Fatalf("created twice: %v", err)
	}
	second, err := e.B.Save(e.Ctx, bucket, "r.c", []byte("two"), first, 0)
	e.must(err)
	if _, err := e.B.Save(e.Ctx, bucket, "r.c", []byte("x"), first, 0); !errors.Is(err, messages.ErrConflict) {
		e.Fatalf("an old revision: %v", err)
	}
	got, err := e.B.Load(e.Ctx, bucket, "r.c")
	if err != nil || string(got.Value) != "two" || got.Revision != second || got.Key != "r.c" || got.Deleted {
		e.Fatalf("got %+v, %v", got, err)
	}
}

func saveRace(e *Env) {
	revision := uint64(0)
	for round := range 5 {
		var all sync.WaitGroup
		var mu sync.Mutex
		var winners []uint64
		for i := range 8 {
			all.Go(func() {
				r, err := e.B.Save(e.Ctx, bucket, "k", fmt.Appendf(nil, "%d-%d", round, i), revision, 0)
				mu.Lock()
				defer mu.Unlock()
				if err == nil {
					winners = append(winners, r)
				} else if !errors.Is(err, messages.ErrConflict) {
					e.Error(err)
				}
			})
		}
		all.Wait()
		if len(winners) != 1 {
			e.Fatalf("round %d has winners %v", round, winners)
		}
		revision = winners[0]
	}
}

func saveAfterDelete(e *Env) {
	first, err := e.B.Save(e.Ctx, bucket, "k", []byte("one"), 0, 0)
	e.must(err)
	e.must(e.B.Delete(e.Ctx, bucket, "k"))
	if got := e.loaded("k"); got != "" {
		e.Fatalf("deleted, and there is %q", got)
	}
	if _, err := e.B.Save(e.Ctx, bucket, "k", []byte("x"), first, 0); !errors.Is(err, messages.ErrConflict) {
		e.Fatalf("the revision before the delete: %v", err)
	}
	_, err = e.B.Save(e.Ctx, bucket, "k", []byte("two"), 0, 0)
	e.must(err)
	if got := e.loaded("k"); got != "two" {
		e.Fatalf("got %q", got)
	}
	e.must(e.B.Delete(e.Ctx, bucket, "never-there"))
}

func put(e *Env) {
	for _, v := range []string{"one", "two"} {
		e.must(e.B.Put(e.Ctx, bucket, "k", []byte(v), 0))
	}
	if got := e.loaded("k"); got != "two" {
		e.Fatalf("got %q", got)
	}
}

// forEver: CONTROL has an age, which the policies of a pool must not share.
// Each write says anew how long the value lives.
func forEver(e *Env) {
	const b = messages.BucketControl
	_, err := e.B.Save(e.Ctx, b, "saved", []byte("x"), 0, messages.Forever)
	e.must(err)
	e.must(e.B.Put(e.Ctx, b, "put", []byte("x"), messages.Forever))
	e.must(e.B.Put(e.Ctx, b, "taken-back", []byte("x"), messages.Forever))
	e.must(e.B.Put(e.Ctx, b, "taken-back", []byte("x"), 0))
	e.must(e.B.Put(e.Ctx, b, "aged", []byte("x"), 0))
	e.goneFrom(b, "aged")
	e.goneFrom(b, "taken-back")
	for _, key := range []string{"saved", "put"} {
		if _, err := e.B.Load(e.Ctx, b, key); err != nil {
			e.Errorf("%s went with the others: %v", key, err)
		}
	}
}

func (e *Env) gone(key string) time.Time {
	e.Helper()
	return e.goneFrom(bucket, key)
}

// goneFrom watches until the value under key has gone, and says when.
func (e *Env) goneFrom(bucket messages.Bucket, key string) time.Time {
	e.Helper()
	gone := make(chan time.Time, 1)
	stop := e.background(func(ctx context.Context) error {
		there := false
		told := sync.OnceFunc(func() { gone <- time.Now() })
		return e.B.Watch(ctx, bucket, key, func() {
			if !there {
				told() // before we looked
			}
		}, func(v messages.Entry) {
			if there && v.Deleted {
				told()
			}
			there = !v.Deleted
		})
	})
	at := wait(e, "the end of "+key, gone)
	_ = stop()
	return at
}

// TTLOnExistingKey: each write says how long the value lives from then on, the
// second on a key as well as the first (P7.24: a record ends by itself).
func TTLOnExistingKey(e *Env) {
	first, err := e.B.Save(e.Ctx, bucket, "k", []byte("long"), 0, time.Hour)
	e.must(err)
	begin := time.Now()
	_, err = e.B.Save(e.Ctx, bucket, "k", []byte("short"), first, time.Second)
	e.must(err)
	if lived := e.gone("k").Sub(begin); lived < 900*time.Millisecond || lived > patience {
		e.Errorf("lived %v, not a second", lived)
	}
	if got := e.loaded("k"); got != "" {
		e.Fatalf("expired, and there is %q", got)
	}
	_, err = e.B.Save(e.Ctx, bucket, "k", []byte("new"), 0, 0)
	e.must(err)
}

func ttlTakenBack(e *Env) {
	e.must(e.B.Put(e.Ctx, bucket, "kept", []byte("short"), time.Second))
	e.must(e.B.Put(e.Ctx, bucket, "kept", []byte("long"), 0))
	e.must(e.B.Put(e.Ctx, bucket, "gone", []byte("x"), time.Second))
	e.gone("gone")
	if got := e.loaded("kept"); got != "long" {
		e.Fatalf("got %q", got)
	}
}

func entries(e *Env) {
	for _, k := range []string{"tool.a", "tool.b", "offer.w", "tool.c"} {
		e.must(e.B.Put(e.Ctx, bucket, k, []byte("v "+k), 0))
	}
	e.must(e.B.Delete(e.Ctx, bucket, "tool.b"))
	for filter, want := range map[string][]string{
		"tool.>": {"tool.a", "tool.c"},
		"*.w":    {"offer.w"},
		">":      {"tool.a", "offer.w", "tool.c"},
		"x.>":    nil,
		"tool.a": {"tool.a"},
	} {
		got, err := e.B.Entries(e.Ctx, bucket, filter)
		e.must(err)
		var names []string
		for _, v := range got {
			names = append(names, v.Key)
			if string(v.Value) != "v "+v.Key || v.Revision == 0 || v.Deleted {
				e.Errorf("entry %+v", v)
			}
		}
		if !slices.Equal(names, want) {
			e.Errorf("%s: got %v, want %v", filter, names, want)
		}
	}
}

func keys(e *Env) {
	for _, run := range []messages.Run{messages.NamedRun("a b/c.d"), messages.UnnamedRun("01924d1c-5f7e-7000-8000-000000000001")} {
		key := messages.CallKey(run, messages.NewCallID())
		_, err := e.B.Save(e.Ctx, bucket, key, []byte("x"), 0, 0)
		e.must(err)
		got, err := e.B.Entries(e.Ctx, bucket, string(run)+".*")
		if err != nil || len(got) != 1 || got[0].Key != key {
			e.Errorf("run %s: %v, %v", run, got, err)
		}
	}
}

func watchCases() []Case {
	return []Case{
		{"watch shows what is there, is ready, shows changes", watch},
		{"watch of nothing is ready", watchNothing},
		{"watch keeps to its filter", watchFilter},
	}
}

func watch(e *Env) {
	e.must(e.B.Put(e.Ctx, bucket, "a", []byte("1"), 0))
	e.must(e.B.Put(e.Ctx, bucket, "b", []byte("2"), 0))
	e.must(e.B.Delete(e.Ctx, bucket, "b"))
	events := make(chan string, 100)
	stop := e.background(func(ctx context.Context) error {
		return e.B.Watch(ctx, bucket, ">", func() { events <- "ready" }, func(v messages.Entry) {
			if v.Deleted {
				events <- v.Key + " deleted"
			} else {
				events <- v.Key + "=" + string(v.Value)
			}
		})
	})
	expect := func(want string) {
		e.Helper()
		if got := wait(e, want, events); got != want {
			e.Fatalf("got %q, want %q", got, want)
		}
	}
	expect("a=1")
	expect("ready")
	e.must(e.B.Put(e.Ctx, bucket, "a", []byte("3"), 0))
	expect("a=3")
	e.must(e.B.Delete(e.Ctx, bucket, "a"))
	expect("a deleted")
	e.must(e.B.Put(e.Ctx, bucket, "c", []byte("4"), Lease))
	expect("c=4")
	expect("c deleted")
	if err := stop(); !errors.Is(err, errStopped) {
		e.Fatalf("ended with %v", err)
	}
}

func watchNothing(e *Env) {
	ready := make(chan struct{})
	e.background(func(ctx context.Context) error {
		return e.B.Watch(ctx, bucket, "none.>", func() { close(ready) }, func(v messages.Entry) { e.Errorf("got %+v", v) })
	})
	wait(e, "ready", ready)
	e.must(e.B.Put(e.Ctx, bucket, "other", []byte("x"), 0))
}

func watchFilter(e *Env) {
	got := make(chan string, 10)
	ready := make(chan struct{})
	e.background(func(ctx context.Context) error {
		return e.B.Watch(ctx, bucket, "tool.*", func() { close(ready) }, func(v messages.Entry) { got <- v.Key })
	})
	wait(e, "ready", ready)
	for _, k := range []string{"offer.x", "tool.x.y", "tool.x"} {
		e.must(e.B.Put(e.Ctx, bucket, k, []byte("x"), 0))
	}
	if k := wait(e, "a change", got); k != "tool.x" {
		e.Fatalf("got %s", k)
	}
}
