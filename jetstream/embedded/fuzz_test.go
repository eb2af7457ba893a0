package embedded

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mulligan/internal/fuzztest"
)

// Whatever stands where a server wrote its address, it is an address or an
// error that names the file, and a server that starts again takes no port over
// that there is not.
func FuzzAddress(f *testing.F) {
	for _, s := range []string{`{"url":"nats://127.0.0.1:4222","token":"t","pid":1}`, `{"url":"nats://127.0.0.1:99999"}`, `{"url":":"}`, `{"url":"x://[::1]:-1"}`, `{"url":7}`, `{`, ``, `null`, `{"pid":` + strings.Repeat("9", 5000) + `}`} {
		f.Add([]byte(s))
	}
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, content []byte) {
		for _, name := range []string{addressFile, lastFile} {
			if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		fuzztest.Bounded(t, len(content), func() {
			a, err := ReadAddress(dir)
			fuzztest.Told(t, err)
			if (err == nil) != (a.URL != "") && err == nil || err != nil && !strings.Contains(err.Error(), addressFile) {
				t.Fatalf("%q: %+v, %v", content, a, err)
			}
			if c := (Config{Dir: dir, Same: true}).asLast(); c.Port != 0 && checkPort(c.Port) != nil || err != nil && (c.Port != 0 || c.Token != "") {
				t.Fatalf("%q: port %d", content, c.Port)
			}
		})
	})
}
