package porttest

import (
	"errors"
	"time"

	"mulligan/pkg/messages"
)

func scheduleCases() []Case {
	return []Case{
		{"a schedule fires, never early", ScheduleNeverEarly},
		{"a schedule in the past fires at once", schedulePast},
		{"the same schedule is replaced", scheduleReplaced},
		{"a purge takes a schedule away", schedulePurged},
	}
}

func (e *Env) due(wait time.Duration) []messages.Due {
	e.Helper()
	ds, err := e.B.Fetch(e.Ctx, messages.StreamSchedule, messages.ConsumerDue, 10, wait)
	e.must(err)
	var out []messages.Due
	for _, d := range ds {
		v, err := messages.DecodeStory[messages.Due](d.Body)
		e.must(err)
		if d.Subject != e.Names.DueSubject(v) {
			e.Errorf("fired to %s, want %s", d.Subject, e.Names.DueSubject(v))
		}
		e.must(e.B.Ack(e.Ctx, d))
		out = append(out, v)
	}
	return out
}

func dueOf(c call, n, w int, in time.Duration) messages.Due {
	return messages.Due{Kind: messages.DueRetry, Run: c.run, Call: c.id, N: n, W: w, At: time.Now().Add(in)}
}

// inTime tries with longer and longer delays until what has to be done before
// one is over was done before it: try says whether it was.
func inTime(e *Env, try func(in time.Duration) bool) {
	e.Helper()
	for in := 300 * time.Millisecond; in < patience/3; in *= 3 {
		if try(in) {
			return
		}
	}
	e.Fatalf("nothing was done in time")
}

// ScheduleNeverEarly: what is due fires as itself, once, and not before its time.
func ScheduleNeverEarly(e *Env) {
	inTime(e, func(in time.Duration) bool {
		d := dueOf(newCall("r"), 1, 0, in)
		e.must(e.B.Schedule(e.Ctx, d))
		_, err := e.B.Get(e.Ctx, e.Names.ScheduleSubject(d))
		looked := time.Now()
		got := e.due(patience)
		if early := time.Until(d.At); early > 0 {
			e.Errorf("fired %v early", early)
		}
		if len(got) != 1 || got[0].Kind != d.Kind || got[0].Run != d.Run || got[0].Call != d.Call || got[0].N != 1 || !got[0].At.Equal(d.At) {
			e.Fatalf("fired %+v, want %+v", got, d)
		}
		if more := e.due(300 * time.Millisecond); len(more) != 0 {
			e.Fatalf("fired again: %+v", more)
		}
		if _, err := e.B.Get(e.Ctx, e.Names.ScheduleSubject(d)); !errors.Is(err, messages.ErrNotFound) {
			e.Fatalf("it is still there: %v", err)
		}
		if err != nil && looked.Before(d.At) {
			e.Fatalf("it was not there to be found: %v", err)
		}
		return err == nil
	})
}

func schedulePast(e *Env) {
	e.must(e.B.Schedule(e.Ctx, dueOf(newCall("r"), 1, 0, -time.Hour)))
	if got := e.due(patience); len(got) != 1 {
		e.Fatalf("fired %+v", got)
	}
}

func scheduleReplaced(e *Env) {
	inTime(e, func(in time.Duration) bool {
		c := newCall("r")
		first, second := dueOf(c, 1, 0, in), dueOf(c, 1, 0, 3*in)
		e.must(e.B.Schedule(e.Ctx, first))
		e.must(e.B.Schedule(e.Ctx, second))
		replaced := time.Now().Before(first.At)
		got := e.due(patience)
		if !replaced { // the first may have fired
			e.must(e.B.Purge(e.Ctx, e.Names.CallSchedules(c.run, c.id)))
			e.due(300 * time.Millisecond)
			return false
		}
		if len(got) != 1 || time.Now().Before(second.At) || !got[0].At.Equal(second.At) {
			e.Fatalf("fired %+v", got)
		}
		return true
	})
}

// ScheduleOfItsOwn: dispatch and wait stand in the schedule's subject, so a
// coordinator that was frozen replaces nothing newer (P7.3).
func ScheduleOfItsOwn(e *Env) {
	c := newCall("r")
	newer, late, older := dueOf(c, 2, 0, 250*time.Millisecond), dueOf(c, 2, 1, 300*time.Millisecond), dueOf(c, 1, 0, time.Hour)
	for _, d := range []messages.Due{newer, late, older} {
		e.must(e.B.Schedule(e.Ctx, d))
	}
	fired := map[[2]int]bool{}
	for len(fired) < 2 {
		got := e.due(patience)
		if len(got) == 0 {
			e.Fatalf("only %v fired", fired)
		}
		for _, d := range got {
			fired[[2]int{d.N, d.W}] = true
		}
	}
	if !fired[[2]int{2, 0}] || !fired[[2]int{2, 1}] {
		e.Fatalf("fired %v", fired)
	}
}

func schedulePurged(e *Env) {
	inTime(e, func(in time.Duration) bool {
		gone, kept := newCall("r"), newCall("r")
		d := dueOf(gone, 1, 0, in)
		e.must(e.B.Schedule(e.Ctx, d))
		e.must(e.B.Schedule(e.Ctx, dueOf(kept, 1, 0, in+100*time.Millisecond)))
		e.must(e.B.Purge(e.Ctx, e.Names.CallSchedules(gone.run, gone.id)))
		purged := time.Now().Before(d.At)
		fired := map[string]int{}
		for fired[kept.id] == 0 {
			got := e.due(patience)
			if len(got) == 0 {
				e.Fatalf("what was kept did not fire: %v", fired)
			}
			for _, d := range got {
				fired[d.Call]++
			}
		}
		for _, d := range e.due(300 * time.Millisecond) {
			fired[d.Call]++
		}
		if purged && fired[gone.id] > 0 || fired[kept.id] != 1 {
			e.Fatalf("fired %v: %s was purged, %s kept", fired, gone.id, kept.id)
		}
		return purged
	})
}
