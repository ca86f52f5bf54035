package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"plimsoll/engine/kube"
	"plimsoll/profile"
	"plimsoll/profile/store"
)

// kubeResults are the files of a run that its ConfigMap gets: what planner serve
// --profile reads, and what says how they came about.
func kubeResults() []string {
	return []string{"prefill_raw_data.json", "decode_raw_data.json", store.BatchedFile, store.RecommendationFile, store.RunFile}
}

// publish puts a run's results into the ConfigMap that was asked for. What does not
// fit with run.json goes without it: it is for people, and in --output-dir too.
func (o profileOptions) publish(ctx context.Context, ui *console) error {
	if o.kube.results == "" {
		return nil
	}
	config, namespace, err := o.kube.connection.Config()
	if err != nil {
		return err
	}
	files, total := map[string][]byte{}, 0
	for _, name := range kubeResults() {
		text, err := os.ReadFile(filepath.Join(o.dir, name))
		if errors.Is(err, fs.ErrNotExist) {
			continue // there is no surface of a phase in which nothing was usable
		}
		if err != nil {
			return fmt.Errorf("reading the results: %w", err)
		}
		if total += len(name) + len(text); name == store.RunFile && total > kube.MostResults {
			ui.warn([]profile.Warning{profile.Warnf("results_cut", "ConfigMap %s gets no %s: with it there would be %d bytes, and it takes %d", o.kube.results, name, total, kube.MostResults)})
			continue
		}
		files[name] = text
	}
	return kube.WriteResults(ctx, config, namespace, o.kube.results, files)
}
