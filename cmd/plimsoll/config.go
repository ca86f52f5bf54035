package main

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/urfave/cli/v2"
)

// notInFile are flags that a configuration file may not set.
func notInFile() []string {
	return []string{"config", "workload", "help", "format", "quiet", "verbose", "resume", "retry", "force", "dry-run", "api-key"}
}

// applyConfig sets, from a YAML file whose keys are the flags' names, every
// flag that the command line left alone; flag is the one that named the file.
func applyConfig(c *cli.Context, flag, path string) error {
	b, err := os.ReadFile(path)
	if err != nil {
		return usagef("--%s: %v", flag, err)
	}
	var doc yaml.MapSlice
	if err := yaml.UnmarshalWithOptions(b, &doc, yaml.Strict()); err != nil {
		return usagef("--%s %s: %s", flag, path, firstLine(yaml.FormatError(err, false, false)))
	}
	names := flagNames(c)
	for _, item := range doc {
		key := fmt.Sprint(item.Key)
		if !slices.Contains(names, key) || slices.Contains(notInFile(), key) {
			e := usagef("--%s %s: unknown key %q", flag, path, key)
			if n := nearest(key, names); n != "" && n != key {
				return e.hint("did you mean %s?", n)
			}
			return e.hint("keys are the flags' names, without --")
		}
		if c.IsSet(key) {
			continue
		}
		v, err := scalar(item.Value)
		if err == nil {
			err = c.Set(key, v)
		}
		if err != nil {
			return usagef("--%s %s: %s: %v", flag, path, key, err)
		}
	}
	return nil
}

// scalar is a YAML value as the command line would have it; lists are joined
// with commas.
func scalar(v any) (string, error) {
	switch v := v.(type) {
	case nil:
		return "", errors.New("has no value")
	case []any:
		parts := make([]string, 0, len(v))
		for _, e := range v {
			s, err := scalar(e)
			if err != nil {
				return "", err
			}
			parts = append(parts, s)
		}
		return strings.Join(parts, ","), nil
	case map[string]any, yaml.MapSlice:
		return "", errors.New("want one value or a list, not a mapping")
	default:
		return fmt.Sprint(v), nil
	}
}
