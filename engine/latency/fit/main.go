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
	fmt.Fprintf(os.Stderr, "fit: error: %v\n", err)
	os.Exit(1)
}

func run(dir string) error {
	rows, err := readRows(dir)
	if err != nil {
		return err
	}
	results, err := fitAll(rows)
	if err != nil {
		return err
	}
	text, err := familiesJSON(results)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "families.json"), text, 0o644); err != nil {
		return fmt.Errorf("writing the fits: %w", err)
	}
	page, err := markdown(rows, results)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "FIT.md"), page, 0o644); err != nil {
		return fmt.Errorf("writing the page: %w", err)
	}
	return nil
}

func familiesJSON(results []result) ([]byte, error) {
	var fits []any
	for _, r := range results {
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
