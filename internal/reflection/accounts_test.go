package reflection

import (
	"context"
	"fmt"
	"testing"

	"mulligan/pkg/messages"
)

// lister holds nothing and counts how often it was asked for all of a run.
type lister struct {
	Story
	whole int
}

func (l *lister) Names() messages.Pool { p, _ := messages.NewPool("p"); return p }

func (l *lister) ListFrom(_ context.Context, _ messages.Stream, _ []string, from uint64, fn func(messages.Stored) bool) error {
	if from == 0 {
		l.whole++
		fn(messages.Stored{Sequence: 7})
	}
	return nil
}

// However many runs there are, the ledger remembers so many; the one that was
// not asked for the longest goes.
func TestTheLedgerIsBounded(t *testing.T) {
	b := &lister{}
	l := newLedger(b)
	ask := func(run string) {
		t.Helper()
		if _, err := l.spent(t.Context(), messages.NamedRun(run)); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 3 * mostAccounts {
		ask(fmt.Sprint(i))
		ask("often")
	}
	if len(l.runs) != mostAccounts || len(l.used) != mostAccounts {
		t.Errorf("%d runs, %d in their order", len(l.runs), len(l.used))
	}
	if b.whole != 3*mostAccounts+1 {
		t.Errorf("%d runs were read whole", b.whole)
	}
	ask("0")
	if b.whole != 3*mostAccounts+2 {
		t.Error("a run that was dropped was not read again")
	}
}
