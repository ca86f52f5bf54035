// Command fit fits the latency model's coefficients to measured rows of whole engines,
// and writes how far off they are on rows held out. Equal rows give equal files. `make
// accuracy ROWS=DIR` runs it.
package main

import (
	"flag"
	"fmt"
	"os"
)

func main() {
	rows := flag.String("rows", "", "folder of measured rows")
	out := flag.String("out", "engine/latency/fits.json", "file to write the fits to")
	doc := flag.String("page", "docs/accuracy.md", "file to write their errors to")
	flag.Parse()
	if err := run(*rows, *out, *doc); err != nil {
		fmt.Fprintf(os.Stderr, "fit: error: %v\n", err) //nolint:forbidigo // a command of its own
		os.Exit(1)                                      //nolint:forbidigo // a command of its own
	}
}

func run(dir, out, doc string) error {
	rows, err := readRows(dir)
	if err != nil {
		return err
	}
	all := studies(points(rows))
	if err := write(out, state(all)); err != nil {
		return err
	}
	return writePage(doc, all, rows)
}
