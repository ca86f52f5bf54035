//go:build full

package command_test

import (
	"os/exec"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"plimsoll/engine/command"
	"plimsoll/engine/enginetest"
)

// A shell splits the same words, where it is given nothing to expand. (A bare
// line end, which to a shell ends the command, is white space here.)
func TestSplitsAsShell(t *testing.T) {
	sh, err := exec.LookPath("sh")
	if err != nil {
		t.Log("no sh here: the comparison did not run")
		return
	}
	enginetest.Check(t, func(t *rapid.T) {
		line := rapid.StringOfN(rapid.SampledFrom([]rune("ab'\"\\ \t-=,.")), 0, 20, -1).Draw(t, "line")
		s, err := command.Template{Argv: "e {{.Port}} " + line}.Spec(cfg, launch)
		if err != nil {
			t.Skip("refused") // unbalanced
		}
		out, err := exec.CommandContext(t.Context(), sh, "-c", "printf '%s\\0' e 8123 "+line).Output()
		if err != nil {
			t.Fatalf("sh refuses %q, which was accepted as %q", line, s.Argv)
		}
		if got := strings.Join(s.Argv, "\x00") + "\x00"; got != string(out) {
			t.Fatalf("%q:\ngot %q\nsh  %q", line, got, out)
		}
	})
}
