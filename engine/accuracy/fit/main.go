// Command fit fits the latency model's coefficients to measured rows of whole engines,
// and writes how far off they are on rows held out. Equal rows give equal files. `make
// accuracy ROWS=DIR` runs it.
package main

import (
	"flag"
	"fmt"
	"os"

	"plimsoll/engine/catalog"
)

func main() {
	rows := flag.String("rows", "", "folder of measured rows")
	profiles := flag.String("profiles", "testdata/npz", "folder of measured profiles")
	out := flag.String("out", "engine/latency/fits.json", "file to write the fits to")
	doc := flag.String("page", "docs/accuracy.md", "file to write their errors to")
	flag.Parse()
	if err := run(*rows, *profiles, *out, *doc); err != nil {
		fmt.Fprintf(os.Stderr, "fit: error: %v\n", err) //nolint:forbidigo // a command of its own
		os.Exit(1)                                      //nolint:forbidigo // a command of its own
	}
}

func run(dir, profiles, out, doc string) error {
	cat, err := catalog.Default()
	if err != nil {
		return err
	}
	rows, torch, err := readRows(dir, profiles, cat)
	if err != nil {
		return err
	}
	logs, err := readRecorded(dir, cat)
	if err != nil {
		return err
	}
	all := studies(points(rows))
	fits := state(all)
	if err := write(out, fits); err != nil {
		return err
	}
	own, err := off(torch, fits[0])
	if err != nil {
		return err
	}
	return os.WriteFile(doc, page(all, rows, own, logs), 0o644) //nolint:gosec // a file of the repository
}
