package reflection

import (
	"context"
	"sync"

	"mulligan/pkg/messages"
)

// ledger adds up what models took for the calls of each run. It is no store of
// its own: the decisions on the run's failures say what they took, and each is
// read once. So it is right after a restart and beside other reflectors; what
// is being asked at this moment is not in it, so that a budget is exceeded by
// that much at the most.
type ledger struct {
	broker Story
	names  messages.Pool

	mu   sync.Mutex
	runs map[messages.Run]*account
	used []messages.Run // the order in which they were last asked for, the oldest first
}

// account is one run. Its lock is held while decisions are read, so that each is
// counted once.
type account struct {
	mu    sync.Mutex
	spent messages.Usage
	next  uint64 // sequence in RECOVERY from which nothing was read yet
}

// mostAccounts bounds the runs that are remembered. One that was dropped is read
// from its beginning when it comes again.
const mostAccounts = 1024

func newLedger(b Story) *ledger {
	return &ledger{broker: b, names: b.Names(), runs: make(map[messages.Run]*account)}
}

// spent is what the run took so far. After an error what was read stays read,
// so that another try goes on from there.
func (l *ledger) spent(ctx context.Context, run messages.Run) (messages.Usage, error) {
	a := l.account(run)
	a.mu.Lock()
	defer a.mu.Unlock()
	err := l.broker.ListFrom(ctx, messages.StreamRecovery, []string{l.names.DecisionsFilter(run)}, a.next, func(m messages.Stored) bool {
		a.next = m.Sequence + 1
		if d, err := messages.DecodeDecision(m.Body); err == nil && d.Usage != nil { // one of another version is not of this build's making
			a.spent = a.spent.Plus(*d.Usage)
		}
		return true
	})
	return a.spent, err
}

func (l *ledger) account(run messages.Run) *account {
	l.mu.Lock()
	defer l.mu.Unlock()
	a := l.runs[run]
	if a == nil {
		a = &account{}
		l.runs[run] = a
	}
	l.touch(run)
	return a
}

// touch makes the run the latest, and drops the oldest of too many.
func (l *ledger) touch(run messages.Run) {
	for i, r := range l.used {
		if r == run {
			l.used = append(l.used[:i], l.used[i+1:]...)
			break
		}
	}
	l.used = append(l.used, run)
	if len(l.used) > mostAccounts {
		delete(l.runs, l.used[0])
		l.used = l.used[1:]
	}
}
