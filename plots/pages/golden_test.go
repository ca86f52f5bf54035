package pages_test

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"plimsoll/profile"
)

//nolint:gochecknoglobals // flags of tests have no other place
var update = flag.Bool("update", false, "write the pages' goldens")

// What a page says and what its script is given, whole: everything between its style
// and its script. What its numbers should be is said by other tests.
func TestGoldens(t *testing.T) {
	t.Parallel()
	one := profiled(point(profile.Prefill, 4, 80*time.Millisecond, 9000), point(profile.Decode, 1, 8*time.Millisecond, 900))
	one.USD = 2
	for name, page := range map[string]string{"profile": unescaped(t, one)} {
		_, body, _ := strings.Cut(page, "<body>")
		body, _, _ = strings.Cut(body, "\n<script>")
		file := filepath.Join("testdata", name+".html")
		if *update {
			if err := os.WriteFile(file, []byte(body+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if got := body + "\n"; got != string(want) {
			at := 0
			for at < min(len(got), len(want)) && got[at] == want[at] {
				at++
			}
			t.Errorf("%s is another from %q on, want %q (-update writes it)", file, got[at:min(len(got), at+120)], want[at:min(len(want), at+120)])
		}
	}
}
