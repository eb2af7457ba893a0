package bench

import (
	"fmt"
	"os"
	"testing"
)

const asServer = "MULLIGAN_BENCH_SERVER"

// The broker's process of these tests is this program.
func TestMain(m *testing.M) {
	if os.Getenv(asServer) != "" {
		err := ServeBroker(os.Stdin, os.Stdout)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}
