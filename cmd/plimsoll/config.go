package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/urfave/cli/v2"

	"plimsoll/engine/field"
	"plimsoll/engine/redact"
)

// notInFile are flags that a configuration file may not set.
func notInFile() []string {
	return []string{"config", "workload", "help", "format", "quiet", "verbose", "resume", "force", "dry-run", "api-key"}
}

// applyConfig sets, from a YAML file whose keys are the flags' names, every
// flag that the command line left alone; flag is the one that named the file.
func applyConfig(c *cli.Context, flag, path string) error {
	var doc yaml.MapSlice
	if err := readYAML(flag, path, &doc); err != nil {
		return err
	}
	return setFlags(c, doc, "--"+flag+" "+path)
}

const maxConfigBytes = 256 << 10

// readYAML reads a configuration's one document into to.
func readYAML(flag, path string, to any) error {
	bad := func(format string, args ...any) error {
		return field.Errorf("--%s %s: %s", flag, path, fmt.Sprintf(format, args...))
	}
	b, err := readConfigText(flag, path)
	if err != nil {
		return err
	}
	documents := yaml.NewDecoder(bytes.NewReader(b), yaml.Strict(), yaml.UseOrderedMap())
	if err := documents.Decode(to); err != nil && !errors.Is(err, io.EOF) {
		return bad("%s", firstLine(yaml.FormatError(err, false, false)))
	}
	if err := documents.Decode(new(any)); !errors.Is(err, io.EOF) {
		return bad("it holds more than one document: want one")
	}
	return nil
}

// readConfigText reads a configuration's text.
func readConfigText(flag, path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, field.Errorf("--%s: %v", flag, err)
	}
	defer f.Close() //nolint:errcheck // only read
	b, err := io.ReadAll(io.LimitReader(f, maxConfigBytes+1))
	if err != nil {
		return nil, field.Errorf("--%s: %v", flag, err)
	}
	if len(b) > maxConfigBytes {
		return nil, field.Errorf("--%s %s: more than %d KiB: that is no configuration", flag, path, maxConfigBytes>>10)
	}
	return b, nil
}

// setFlags sets what is not set yet from a mapping whose keys are flags.
func setFlags(c *cli.Context, items yaml.MapSlice, where string) error {
	names, seen := flagNames(c), map[string]bool{}
	for _, item := range items {
		key := firstName(c, fmt.Sprint(item.Key))
		if !slices.Contains(names, key) || slices.Contains(notInFile(), key) {
			e := field.Errorf("%s: unknown key %q", where, key)
			if n := meantFlag(key, names); n != "" && n != key {
				return e.Hint("did you mean %s?", n)
			}
			return e.Hint("keys are the flags' names, without --")
		}
		if seen[key] {
			return field.Errorf("%s: %s is there twice, under two names: want one of them", where, key)
		}
		seen[key] = true
		if c.IsSet(key) {
			continue
		}
		credentialsOf(c).add(redact.Find([]string{"--" + key, fmt.Sprint(item.Value)})...)
		err := setFlag(c, key, item.Value)
		if err != nil {
			return field.Errorf("%s: %s: %v", where, key, err)
		}
	}
	return nil
}

// firstName is the name of the flag that has name for an alias, else name.
func firstName(c *cli.Context, name string) string {
	for _, f := range c.Command.Flags {
		if names := f.Names(); slices.Contains(names, name) {
			return names[0]
		}
	}
	return name
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
