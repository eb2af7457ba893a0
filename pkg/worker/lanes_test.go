package worker

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"mulligan/pkg/messages"
)

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// idle makes every lane one that had nothing.
func idle(ls *lanes) *lanes {
	for i := range ls.all {
		ls.all[i].busy = false
	}
	return ls
}

func TestIdleLanesGetStandingRequestsForOne(t *testing.T) {
	ls := idle(newLanes([]string{"q"}))
	asks := ls.plan(epoch, 1, 0)
	if len(asks) != 4 {
		t.Fatalf("asks %+v", asks)
	}
	for _, a := range asks {
		if a.max != 1 || a.wait != standingWait {
			t.Errorf("%+v", a)
		}
	}
	if again := ls.plan(epoch, 1, 0); len(again) != 0 {
		t.Errorf("asked twice: %+v", again)
	}
}

func TestNothingIsAskedWithoutAFreeSlot(t *testing.T) {
	for _, free := range []int{0, -3} {
		if asks := newLanes([]string{"q"}).plan(epoch, free, 0); len(asks) != 0 {
			t.Errorf("free %d: %+v", free, asks)
		}
	}
}

func TestBusyLanesShareByWeight(t *testing.T) {
	ls := newLanes([]string{"q"})
	got := make(map[messages.Lane]int)
	for range 150 { // one slot at a time
		for _, a := range ls.plan(epoch, 1, 0) {
			if a.wait > 0 {
				t.Fatal("a busy lane is asked to wait")
			}
			got[ls.all[a.lane].lane] += a.max
			ls.answered(a.lane, true)
		}
	}
	want := map[messages.Lane]int{messages.LaneHigh: 80, messages.LaneNormal: 40, messages.LaneRetry: 20, messages.LaneLow: 10}
	for l, n := range want {
		if got[l] != n {
			t.Errorf("%s: %d of 150, want %d", l, got[l], n)
		}
	}
	ls = newLanes([]string{"q"})
	total := 0
	for _, a := range ls.plan(epoch, 64, 0) {
		total += a.max
	}
	if total != 64 {
		t.Errorf("%d of 64 slots are used", total)
	}
}

func TestALaneThatFailedWaits(t *testing.T) {
	ls := idle(newLanes([]string{"q"}))
	for _, a := range ls.plan(epoch, 4, 0) {
		ls.failed(a.lane, epoch.Add(time.Second))
	}
	if asks := ls.plan(epoch.Add(999*time.Millisecond), 4, 0); len(asks) != 0 {
		t.Errorf("%+v", asks)
	}
	if w := ls.wake(epoch); !w.Equal(epoch.Add(time.Second)) {
		t.Errorf("wakes at %v", w)
	}
	if asks := ls.plan(epoch.Add(time.Second), 4, 0); len(asks) != 4 || !ls.wake(epoch.Add(time.Second)).IsZero() {
		t.Errorf("%+v", asks)
	}
}

// simulation plays a broker with queues in front of the chooser.
type simulation struct {
	t       *rapid.T
	ls      *lanes
	slots   int
	ahead   int
	running int
	held    int
	queued  []int
	asks    []ask // under way
	served  []int
}

func (s *simulation) plan() {
	s.asks = append(s.asks, s.ls.plan(epoch, s.slots-s.running-s.held, s.ahead)...)
}

// answer ends the request at index n with what its lane holds.
func (s *simulation) answer(n int) {
	a := s.asks[n]
	s.asks = append(s.asks[:n:n], s.asks[n+1:]...)
	got := min(a.max, s.queued[a.lane])
	s.queued[a.lane] -= got
	s.served[a.lane] += got
	s.ls.answered(a.lane, s.queued[a.lane] > 0)
	s.held += got
	s.start()
}

func (s *simulation) start() {
	n := min(s.held, s.slots-s.running)
	s.running, s.held = s.running+n, s.held-n
}

func TestOvershootIsBoundedAndNoLaneStarves(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		queues := []string{"a", "b", "c"}[:rapid.IntRange(1, 3).Draw(t, "queues")]
		s := &simulation{t: t, ls: newLanes(queues), slots: rapid.IntRange(1, 20).Draw(t, "slots"), ahead: rapid.IntRange(0, mostAhead).Draw(t, "ahead")}
		n := len(s.ls.all)
		s.queued, s.served = make([]int, n), make([]int, n)
		t.Repeat(map[string]func(*rapid.T){
			"arrive": func(t *rapid.T) {
				s.queued[rapid.IntRange(0, n-1).Draw(t, "lane")] += rapid.IntRange(1, 40).Draw(t, "n")
			},
			"answer": func(t *rapid.T) {
				if len(s.asks) == 0 {
					t.Skip()
				}
				i := rapid.IntRange(0, len(s.asks)-1).Draw(t, "request")
				if s.asks[i].wait > 0 && s.queued[s.asks[i].lane] == 0 && rapid.Bool().Draw(t, "goes on waiting") {
					t.Skip()
				}
				s.answer(i)
				s.plan()
			},
			"finish": func(t *rapid.T) {
				if s.running == 0 {
					t.Skip()
				}
				s.running--
				s.start()
				s.plan()
			},
			"": func(t *rapid.T) {
				if s.held > n-1+s.ahead {
					t.Fatalf("%d calls are held beyond %d slots with %d lanes and %d ahead", s.held, s.slots, n, s.ahead)
				}
				asked := make(map[int]bool)
				for _, a := range s.asks {
					if asked[a.lane] || a.max < 1 {
						t.Fatalf("requests %+v", s.asks)
					}
					asked[a.lane] = true
				}
			},
		})
		s.drain(t)
	})
}

// drain lets everything end: every lane with calls must be served.
func (s *simulation) drain(t *rapid.T) {
	for range 100_000 {
		left := s.running + s.held
		for _, q := range s.queued {
			left += q
		}
		if left == 0 {
			return
		}
		if s.running > 0 {
			s.running--
			s.start()
		}
		s.plan()
		for i := 0; i < len(s.asks); {
			if a := s.asks[i]; a.wait > 0 && s.queued[a.lane] == 0 {
				i++ // stands
				continue
			}
			s.answer(i)
			i = 0
		}
	}
	t.Fatalf("calls are left: %v, running %d, held %d", s.queued, s.running, s.held)
}

// While one lane never runs dry, a call in any other is met within a bounded
// number of slots.
func TestALoneCallIsMetWhileAnotherLaneIsFlooded(t *testing.T) {
	for _, flooded := range []int{0, 1, 2, 3} {
		for lone := range 4 {
			if lone == flooded {
				continue
			}
			s := &simulation{ls: newLanes([]string{"q"}), slots: 1, queued: make([]int, 4), served: make([]int, 4)}
			s.queued[flooded] = 10_000
			for step := range 200 {
				s.plan()
				for i := 0; i < len(s.asks); {
					if a := s.asks[i]; a.wait > 0 && s.queued[a.lane] == 0 {
						i++
						continue
					}
					s.answer(i)
					i = 0
				}
				if step == 100 {
					s.queued[lone]++
				}
				if s.running > 0 {
					s.running--
					s.start()
				}
			}
			if s.served[lone] != 1 || s.served[flooded] < 190 {
				t.Errorf("lane %d beside %d: served %v", lone, flooded, s.served)
			}
		}
	}
}
