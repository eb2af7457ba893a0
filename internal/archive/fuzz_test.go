package archive_test

import (
	"bytes"
	"testing"

	"mulligan/internal/archive"
	"mulligan/internal/fuzztest"
	"mulligan/pkg/messages"
)

// Whatever a file holds, it is whole or the error says what is wrong with it.
func FuzzCheck(f *testing.F) {
	head := `{"format":"mulligan-run","version":1,"run":"r"}` + "\n"
	for _, s := range []string{"", "\n", "{}", head, head + `{"end":true}`, head + `{"call":"01890000-0000-7000-8000-000000000001","result":{"status":"succeeded"}}` + "\n", head + `{"payload":"x"}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, content []byte) {
		fuzztest.Bounded(t, len(content), func() {
			c, err := archive.Check(t.Context(), bytes.NewReader(content), messages.Pool{})
			if err != nil {
				fuzztest.Told(t, err)
			} else if !c.Tail.End {
				t.Error("a file without its end is taken for whole")
			}
		})
	})
}
