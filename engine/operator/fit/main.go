// Command fit makes engine/operator/curves.json from tables of measured kernel
// times. Equal tables give equal curves. `make fit TABLES=DIR` runs it.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

func main() {
	tables := flag.String("tables", "", "folder with gemm.csv.gz and the other tables")
	out := flag.String("out", "engine/operator/curves.json", "where the curves go")
	flag.Parse()
	if err := run(*tables, *out); err != nil {
		fmt.Fprintf(os.Stderr, "fit: error: %v\n", err) //nolint:forbidigo // a command of its own
		os.Exit(1)                                      //nolint:forbidigo // a command of its own
	}
}

func run(dir, out string) error {
	groups, err := readAll(dir)
	if err != nil {
		return err
	}
	curves := fitAll(groups)
	var b strings.Builder
	b.WriteString("[\n")
	for i, c := range curves {
		line, err := json.Marshal(c)
		if err != nil {
			return fmt.Errorf("encoding the curves: %w", err)
		}
		b.Write(line)
		if i+1 < len(curves) {
			b.WriteString(",")
		}
		b.WriteString("\n")
	}
	b.WriteString("]\n")
	if err := os.WriteFile(filepath.Clean(out), []byte(b.String()), 0o644); err != nil {
		return fmt.Errorf("writing the curves: %w", err)
	}
	return nil
}
