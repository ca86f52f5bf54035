package process

import (
	"fmt"
	"os"
	"path/filepath"

	"plimsoll/engine"
)

// writeFiles writes what an engine reads as it starts.
func writeFiles(files []engine.File) error {
	for _, f := range files {
		if err := os.MkdirAll(filepath.Dir(f.Path), 0o755); err != nil {
			return fmt.Errorf("creating the folder of its configuration: %w", err)
		}
		if err := os.WriteFile(f.Path, []byte(f.Text), 0o644); err != nil {
			return fmt.Errorf("writing its configuration: %w", err)
		}
	}
	return nil
}
