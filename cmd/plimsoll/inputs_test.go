package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/urfave/cli/v2"
)

// inputsAsTyped are what run.json would say of a command line.
func inputsAsTyped(t *testing.T, args ...string) map[string]string {
	t.Helper()
	var got map[string]string
	cmd := profileCommand()
	cmd.Subcommands, cmd.Action = nil, func(c *cli.Context) error { got, _ = profileOptions{}.inputsOf(c); return nil }
	finish(cmd)
	if err := (&cli.App{Commands: []*cli.Command{cmd}, DisableSliceFlagSeparator: true}).Run(append([]string{"plimsoll", "profile-sla"}, args...)); err != nil {
		t.Fatal(err)
	}
	return got
}

// run.json says what a flag was as somebody would type it, whatever kind of flag it is.
func TestInputsAreAsTyped(t *testing.T) {
	none := inputsAsTyped(t)
	cmd := profileCommand()
	finish(cmd)
	kinds := map[string]int{}
	for _, f := range cmd.Flags {
		name := f.Names()[0]
		if _, recorded := none[name]; !recorded {
			continue // steers this invocation only, or is a secret
		}
		args, want, unset := []string{"--" + name, "a,b"}, "a,b", ""
		switch f := f.(type) {
		case *cli.StringFlag:
			kinds["one"]++
			unset = f.Value
		case *cli.BoolFlag:
			kinds["switch"]++
			args, want, unset = []string{"--" + name}, "true", "false"
		default:
			t.Errorf("--%s is a %T: how is it written down?", name, f)
		}
		if got := inputsAsTyped(t, args...)[name]; got != want {
			t.Errorf("%s is written down as %q, want %q", strings.Join(args, " "), got, want)
		}
		if none[name] != unset {
			t.Errorf("--%s that is left out is written down as %q, want %q", name, none[name], unset)
		}
	}
	if kinds["one"] < 40 {
		t.Errorf("flags of each kind: %v", kinds)
	}
}

// Environment in a command may hold what nobody should read in run.json.
func TestInputsHideCredentialsOfTheEnvironment(t *testing.T) {
	got := inputsAsTyped(t, "--command", "env HF_TOKEN=abc VLLM_LOGGING_LEVEL=INFO engine")["command"]
	if want := "env HF_TOKEN=[redacted] VLLM_LOGGING_LEVEL=INFO engine"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if !slices.Equal(profileOptions{}.redacted([]string{"--max-num-seqs=64", "MONKEY=b"}), []string{"--max-num-seqs=64", "MONKEY=b"}) {
		t.Error("what is no credential is redacted")
	}
}
