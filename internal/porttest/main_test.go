package porttest

import (
	"flag"
	"os"
	"testing"

	"go.uber.org/goleak"
)

// TestMain lets more tests run at once than there are processors: those of
// JetStream mostly wait for leases to end.
func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", "8"); err != nil {
		panic(err)
	}
	// Each check of the twins talks to a broker; more are for whoever changes one.
	if f := flag.Lookup("rapid.checks"); f.Value.String() == f.DefValue {
		if err := f.Value.Set("40"); err != nil {
			panic(err)
		}
	}
	code := m.Run()
	if code == 0 {
		if err := goleak.Find(); err != nil {
			println(err.Error())
			code = 1
		}
	}
	os.Exit(code)
}
