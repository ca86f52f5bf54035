package main

import (
	"bytes"
	"context"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/urfave/cli/v2"
)

// A replay that cannot be written whole has no replay.json, and does not say that it
// was written; its figures are shown all the same.
func TestReplayIsWrittenWhole(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	command := plannerReplayCommand()
	set := flag.NewFlagSet("replay", flag.ContinueOnError)
	for _, f := range command.Flags {
		if err := f.Apply(set); err != nil {
			t.Fatal(err)
		}
	}
	if err := set.Parse([]string{"--ttft", "500", "--itl", "50", "--rate", "20", "--osl", "20", "--duration", "1m", "--policy", "static-peak", "--output-dir", dir}); err != nil {
		t.Fatal(err)
	}
	var out, errs bytes.Buffer
	app := cli.NewApp()
	app.Writer, app.ErrWriter = &out, &errs
	c := cli.NewContext(app, set, nil)
	c.Context, c.Command = context.Background(), command
	o, err := parseReplay(&parser{c: c}, nil)
	if err != nil {
		t.Fatal(err)
	}
	all, err := newComparison(o, func(string) {})
	if err == nil {
		err = all.run(func(string) {})
	}
	if err != nil {
		t.Fatal(err)
	}
	inTheWay := filepath.Join(dir, reportFileName)
	if err := os.MkdirAll(filepath.Join(inTheWay, "x"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := all.show(c); err == nil {
		t.Error("it was written over a folder")
	}
	if _, err := os.Stat(filepath.Join(dir, replayFileName)); err == nil {
		t.Error("what is not whole has a " + replayFileName)
	}
	if s := out.String(); !strings.Contains(s, "\n  static-peak ") || strings.Contains(s, "Written to") {
		t.Errorf("it says\n%s", s)
	}
	if err := os.RemoveAll(inTheWay); err != nil {
		t.Fatal(err)
	}
	out.Reset()
	if err := all.show(c); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(dir, replayFileName)); err != nil || !strings.HasSuffix(out.String(), "\nWritten to "+dir+": replay.json and report.html\n") {
		t.Errorf("%v; it says\n%s", err, out.String())
	}
}
