package coordination

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"mulligan/pkg/messages"
)

// fullness is a store that says what the test says, when the test lets it. Only
// one goroutine of a test runs at a time, so it needs no lock.
type fullness struct {
	stored, queued, failed int64
	err                    error
	looks                  int
	hold                   chan struct{} // a look counts when it begins, and answers when this gives
}

func (f *fullness) Usage(context.Context) (stored, queued, failed int64, err error) {
	f.looks++
	stored, queued, failed, err = f.stored, f.queued, f.failed, f.err
	if f.hold != nil {
		<-f.hold
	}
	return stored, queued, failed, err
}

// publish puts n bytes into the queue.
func (f *fullness) publish(n int64) { f.stored, f.queued = f.stored+n, f.queued+n }

const mebibyte = 1 << 20

func open() error { return nil }

// inRoom runs f with a room of a mebibyte, of which 768 KiB may be taken.
func inRoom(t *testing.T, f func(t *testing.T, r *room, store *fullness)) {
	synctest.Test(t, func(t *testing.T) {
		store := &fullness{}
		f(t, newRoom(store, mebibyte, open, slog.New(slog.DiscardHandler)), store)
	})
}

func sized(n int) messages.Submission { return messages.Submission{Input: make([]byte, n)} }

const (
	small     = 10_000
	smallNeed = (1+outcomeShare)*small + recordSize
)

func mustAdmit(t *testing.T, r *room, n int) int64 {
	t.Helper()
	kept, err := r.admit(t.Context(), sized(n))
	if err != nil {
		t.Fatal(err)
	}
	return kept
}

func wantTaken(t *testing.T, r *room, want int64, when string) {
	t.Helper()
	if r.taken() != want {
		t.Errorf("%s %d bytes are taken, want %d", when, r.taken(), want)
	}
}

func TestWhatIsOnItsWayIsNotForgottenByALook(t *testing.T) {
	inRoom(t, func(t *testing.T, r *room, store *fullness) {
		for range 10 {
			mustAdmit(t, r, small)
		}
		<-time.After(countAge)
		mustAdmit(t, r, small)
		if store.looks != 2 {
			t.Fatalf("it looked %d times", store.looks)
		}
		wantTaken(t, r, 11*smallNeed, "with eleven on their way")
		admitted := 11
		for admitted < 1000 {
			if _, err := r.admit(t.Context(), sized(small)); err != nil {
				break
			}
			admitted++
		}
		if want := mebibyte * 3 / 4 / smallNeed; admitted != want {
			t.Errorf("%d calls were admitted to an empty store, want %d", admitted, want)
		}
	})
}

func TestRoomOfWhatIsRefusedIsFreeAtOnce(t *testing.T) {
	inRoom(t, func(t *testing.T, r *room, _ *fullness) {
		r.settle(0, mustAdmit(t, r, 150_000))
		wantTaken(t, r, 0, "after a refusal")
		if _, err := r.admit(t.Context(), sized(200_000)); err == nil {
			t.Error("a call was admitted whose end cannot fit")
		}
		wantTaken(t, r, 0, "after one for which there is no room")
		mustAdmit(t, r, 150_000)
	})
}

// A call that is stored counts once: by itself until a look that began later
// has ended, then as the look sees it.
func TestAStoredCallIsCountedOnce(t *testing.T) {
	inRoom(t, func(t *testing.T, r *room, store *fullness) {
		kept := mustAdmit(t, r, small)
		store.publish(small)
		r.settle(kept, 0)
		wantTaken(t, r, smallNeed, "after it was stored")
		<-time.After(countAge)
		r.look(t.Context())
		wantTaken(t, r, (1+outcomeShare)*small, "after a look")
		store.stored, store.queued, store.failed = small, 0, small // it failed
		<-time.After(countAge)
		r.look(t.Context())
		wantTaken(t, r, (1+outcomeShare)*small, "while its failure waits for a decision")
		store.stored, store.failed = 3*small, 0 // it ended: failure, record, result
		<-time.After(countAge)
		r.look(t.Context())
		wantTaken(t, r, 3*small, "after its end")
	})
}

// A look may have counted before what was stored while it went on.
func TestWhatIsStoredDuringALookIsKeptUntilTheNext(t *testing.T) {
	inRoom(t, func(t *testing.T, r *room, store *fullness) {
		before, during := mustAdmit(t, r, small), mustAdmit(t, r, small)
		store.publish(small)
		r.settle(before, 0)
		<-time.After(countAge)
		store.hold = make(chan struct{})
		go r.look(t.Context())
		synctest.Wait()
		store.publish(small)
		r.settle(during, 0)
		meanwhile := mustAdmit(t, r, small) // does not wait for the look
		wantTaken(t, r, 3*smallNeed, "during the look")
		store.hold <- struct{}{}
		synctest.Wait()
		wantTaken(t, r, (1+outcomeShare)*small+2*smallNeed, "after a look that saw one of three")
		store.hold = nil
		r.settle(0, meanwhile)
		<-time.After(countAge)
		r.look(t.Context())
		wantTaken(t, r, 2*(1+outcomeShare)*small, "after the next look")
	})
}

func TestAFailedLookForgetsNothing(t *testing.T) {
	inRoom(t, func(t *testing.T, r *room, store *fullness) {
		store.publish(small)
		r.settle(mustAdmit(t, r, small), 0)
		had := r.taken()
		store.err = errors.New("no answer")
		for range 3 {
			<-time.After(countAge)
			r.look(t.Context())
			wantTaken(t, r, had, "after a look that failed")
		}
		store.err = nil
		<-time.After(countAge)
		r.look(t.Context())
		wantTaken(t, r, (1+outcomeShare)*small, "after one that did not")
	})
}

func TestADispatchThatWaitsKeepsItsRoom(t *testing.T) {
	inRoom(t, func(t *testing.T, r *room, store *fullness) {
		rec := messages.Record{State: messages.Waiting, Input: messages.Body{Inline: make([]byte, small)}}
		r.wait(rec, time.Now().Add(time.Minute))
		rec.State = messages.Parked
		r.wait(rec, time.Now().Add(time.Minute)) // waits for a human
		const kept = waitShare*small + recordSize
		for range 61 { // it goes out after a minute, and is then to be seen
			<-time.After(time.Second)
			r.look(t.Context())
			wantTaken(t, r, kept, "while it waits")
		}
		<-time.After(4 * time.Second)
		r.look(t.Context())
		wantTaken(t, r, 0, "after it went out")
		if len(r.until) != 0 {
			t.Errorf("%d seconds are remembered", len(r.until))
		}
	})
}

func TestAnUploadedInputCountsByWhatRefersToNothing(t *testing.T) {
	inRoom(t, func(t *testing.T, r *room, _ *fullness) {
		kept, err := r.admit(t.Context(), messages.Submission{Payload: &messages.PayloadRef{Size: 300_000}})
		if err != nil || kept != payloadShare*300_000+recordSize {
			t.Errorf("kept %d, %v", kept, err)
		}
	})
}

func TestARoomWithoutALimitRefusesNothing(t *testing.T) {
	store := &fullness{stored: 1 << 50}
	for _, r := range []*room{newRoom(store, 0, open, slog.Default()), newRoom(nil, 5, open, slog.Default())} {
		kept := mustAdmit(t, r, 1<<20)
		r.wait(messages.Record{State: messages.Waiting}, time.Now())
		r.settle(kept, 0)
		if r.taken() != 0 || store.looks != 0 {
			t.Errorf("%d taken after %d looks", r.taken(), store.looks)
		}
	}
}

func TestAFullRoomSaysSoNowAndThen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		r := newRoom(&fullness{stored: mebibyte}, mebibyte, open, slog.New(slog.NewTextHandler(&log, nil)))
		for range 21 { // seconds
			if _, err := r.admit(t.Context(), sized(1)); err == nil || !strings.Contains(err.Error(), "store is full: of 1.0 MiB") {
				t.Fatalf("%v", err)
			}
			<-time.After(time.Second)
		}
		if n := strings.Count(log.String(), "the store is full"); n != 3 {
			t.Errorf("told %d times in 21s", n)
		}
	})
}

// What is shut takes nothing in, with a limit or without, until it is open.
func TestAShutRoomSaysWhyAndKeepsNothing(t *testing.T) {
	inRoom(t, func(t *testing.T, r *room, store *fullness) {
		reason := errors.New("the disk is nearly full")
		for _, r.limit = range []int64{0, mebibyte} {
			r.shut = func() error { return reason }
			_, err := r.admit(t.Context(), sized(1))
			if !errors.Is(err, reason) || !strings.Contains(err.Error(), "try again in 2s") {
				t.Errorf("with a limit of %d: %v", r.limit, err)
			}
			wantTaken(t, r, 0, "while it is shut")
			r.shut = open
			r.settle(0, mustAdmit(t, r, 1))
		}
	})
}

// Whatever the order in which calls are admitted, stored, refused and looked
// for: never is less taken than what is stored and what it yet needs, and once
// all is settled and a look has ended, no more.
func TestNoOrderOfEventsForgetsACall(t *testing.T) {
	for seed := range uint64(300) {
		inRoom(t, func(t *testing.T, r *room, store *fullness) {
			r.limit = 1 << 40
			dice := rand.New(rand.NewPCG(seed, 1))
			var coming []int64 // admitted sizes
			needs := int64(0)  // of what is admitted and not stored
			store.hold = make(chan struct{})
			for range 61 { // it goes out after a minute, and is then to be seen
				switch dice.IntN(6) {
				case 0, 1:
					size := dice.Int64N(1000)
					go func() { // may look, and then waits for the answer
						if _, err := r.admit(t.Context(), sized(int(size))); err != nil {
							t.Error(err)
						}
						coming = append(coming, size)
						needs += (1+outcomeShare)*size + recordSize
					}()
				case 2, 3:
					if len(coming) == 0 {
						continue
					}
					size, need := coming[0], (1+outcomeShare)*coming[0]+recordSize
					coming, needs = coming[1:], needs-need
					if dice.IntN(4) == 0 {
						r.settle(0, need)
						continue
					}
					store.publish(size)
					r.settle(need, 0)
				case 4:
					<-time.After(countAge / 2)
				case 5:
					select {
					case store.hold <- struct{}{}:
					default:
					}
				}
				synctest.Wait()
				if least := store.stored + outcomeShare*store.queued + needs; r.taken() < least {
					t.Fatalf("seed %d: %d taken, %d are needed", seed, r.taken(), least)
				}
			}
			close(store.hold)
			synctest.Wait()
			store.hold = nil
			for _, size := range coming {
				r.settle(0, (1+outcomeShare)*size+recordSize)
			}
			<-time.After(countAge)
			r.look(t.Context())
			wantTaken(t, r, store.stored+outcomeShare*store.queued, "at the end")
		})
	}
}
