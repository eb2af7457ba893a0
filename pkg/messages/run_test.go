package messages_test

import (
	"testing"
	"time"

	"mulligan/pkg/messages"
)

// Whatever says that a run is at its end keeps calls from it.
func TestARunAdmitsCallsUntilSomethingIsSaidOfItsEnd(t *testing.T) {
	if !(messages.RunEntry{Spec: &messages.RunSpec{}}).Admits() {
		t.Error("an open run admits none")
	}
	now := time.Now()
	for name, e := range map[string]messages.RunEntry{
		"closed": {Closed: &messages.RunClosed{At: now}}, "over": {Over: &messages.RunOver{At: now}}, "ended": {Ended: &messages.Cancel{At: now}},
		"deleted": {Delete: &messages.RunDelete{At: now}}, "brought in": {Import: &messages.RunImport{At: now}},
	} {
		if e.Admits() || e.Gone() {
			t.Errorf("%s: admits %v, gone %v", name, e.Admits(), e.Gone())
		}
	}
	if !(messages.RunEntry{Delete: &messages.RunDelete{At: now, Removed: &messages.RunRemoved{}}}).Gone() {
		t.Error("a run of which all was removed is not gone")
	}
}
