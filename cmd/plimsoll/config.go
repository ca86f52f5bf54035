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
	return setFlags(c, doc, "--"+flag+" "+path)
}

// setFlags sets what is not set yet from a mapping whose keys are flags.
func setFlags(c *cli.Context, items yaml.MapSlice, where string) error {
	names := flagNames(c)
	for _, item := range items {
		key := fmt.Sprint(item.Key)
		if !slices.Contains(names, key) || slices.Contains(notInFile(), key) {
			e := usagef("%s: unknown key %q", where, key)
			if n := nearest(key, names); n != "" && n != key {
				return e.hint("did you mean %s?", n)
			}
			return e.hint("keys are the flags' names, without --")
		}
		if c.IsSet(key) {
			continue
		}
		err := setFlag(c, key, item.Value)
		if err != nil {
			return usagef("%s: %s: %v", where, key, err)
		}
	}
	return nil
}

// setFlag sets one flag; one that may be repeated takes each entry of a list.
func setFlag(c *cli.Context, name string, value any) error {
	list, isList := value.([]any)
	repeated := slices.ContainsFunc(c.Command.Flags, func(f cli.Flag) bool {
		_, ok := f.(*cli.StringSliceFlag)
		return ok && f.Names()[0] == name
	})
	if !isList || !repeated {
		list = []any{value}
	}
	for _, x := range list {
		v, err := scalar(x)
		if err == nil {
			err = c.Set(name, v)
		}
		if err != nil {
			return err
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
