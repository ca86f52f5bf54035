package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"plimsoll/engine/kube"
)

// kubeResults are the files of a run that its ConfigMap gets: what planner serve
// --profile reads, and what says how they came about.
func kubeResults() []string {
	return []string{"prefill_raw_data.json", "decode_raw_data.json", "recommendation.json", "run.json"}
}

// publish puts a run's results into the ConfigMap that was asked for.
func (o profileOptions) publish(ctx context.Context) error {
	if o.kube.results == "" {
		return nil
	}
	config, namespace, err := o.kube.connection.Config()
	if err != nil {
		return err
	}
	files := map[string][]byte{}
	for _, name := range kubeResults() {
		text, err := os.ReadFile(filepath.Join(o.dir, name))
		if errors.Is(err, fs.ErrNotExist) {
			continue // there is no surface of a phase in which nothing was usable
		}
		if err != nil {
			return fmt.Errorf("reading the results: %w", err)
		}
		files[name] = text
	}
	return kube.WriteResults(ctx, config, namespace, o.kube.results, files)
}
