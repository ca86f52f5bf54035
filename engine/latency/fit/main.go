// Command fit takes the measured rows in engine/latency/testdata and gives the
// coefficients that engine/latency embeds: families.json, and FIT.md, which says
// how far off they are on rows that were held out. Equal rows give equal files.
// `make fit` runs it; its test refits and compares.
package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	dir := flag.String("dir", "engine/latency", "folder of the package: testdata is read, families.json and FIT.md are written")
	flag.Parse()
	if flag.NArg() > 0 {
		fail(fmt.Errorf("unexpected argument %q", flag.Arg(0)))
	}
	if err := run(*dir); err != nil {
		fail(err)
	}
}

func fail(err error) {
	fmt.Fprintf(os.Stderr, "fit: error: %v\n", err) //nolint:forbidigo // a command of its own
	os.Exit(1)                                      //nolint:forbidigo // a command of its own
}

func run(dir string) error {
	rows, err := readRows(dir)
	if err != nil {
		return err
	}
	s, err := studyOf(rows)
	if err != nil {
		return err
	}
	text, err := s.familiesJSON()
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "families.json"), text, 0o644); err != nil {
		return fmt.Errorf("writing the fits: %w", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "FIT.md"), s.markdown(), 0o644); err != nil {
		return fmt.Errorf("writing the page: %w", err)
	}
	return nil
}

func (s study) familiesJSON() ([]byte, error) {
	var fits []any
	for _, r := range s.results {
		fits = append(fits, r.fit)
	}
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetIndent("", "  ")
	if err := e.Encode(fits); err != nil {
		return nil, fmt.Errorf("encoding the fits: %w", err)
	}
	return out.Bytes(), nil
}
