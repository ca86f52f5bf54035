package trace

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// detect names the format of a trace by its first line.
func detect(first []byte) (Format, error) {
	if first[0] == '{' {
		return detectJSON(first)
	}
	cells, err := splitCSV(string(first))
	if err != nil {
		return "", err
	}
	header := map[string]bool{}
	for _, c := range cells {
		header[columnName(c)] = true
	}
	switch {
	case header["t_s"] && header["rate_rps"]:
		return FormatServeGen, nil
	case header["contexttokens"] && header["generatedtokens"]:
		return FormatAzure, nil
	}
	if _, err := newTable(string(first), FormatCSV, false); err != nil {
		return "", fmt.Errorf("no trace begins like this: %w", err)
	}
	return FormatCSV, nil
}

func detectJSON(first []byte) (Format, error) {
	var line map[string]json.RawMessage
	if err := json.Unmarshal(first, &line); err != nil {
		return "", plainJSON(err)
	}
	switch {
	case line["event"] != nil || line["schema"] != nil:
		return FormatRequestTrace, nil
	case line["timestamp"] != nil || line["input_length"] != nil:
		return FormatMooncake, nil
	}
	return "", errors.New("a JSON line with neither timestamp and input_length nor schema (hint: name the format)")
}

// plainJSON says what encoding/json complains about without Go's names.
func plainJSON(err error) error {
	var (
		syntax *json.SyntaxError
		kind   *json.UnmarshalTypeError
	)
	switch {
	case errors.As(err, &syntax):
		return fmt.Errorf("bad JSON: %w at byte %d (hint: a trace has one JSON object a line)", syntax, syntax.Offset)
	case errors.As(err, &kind):
		field := cmp.Or(kind.Field[strings.LastIndex(kind.Field, ".")+1:], "the line")
		return fmt.Errorf("%s: got %s, want %s", field, kind.Value, wanted(kind.Type.String()))
	}
	return err
}

// wanted is what a field of a Go type takes.
func wanted(goType string) string {
	switch goType {
	case "int":
		return "a whole number"
	case "uint64":
		return "a whole number from 0"
	case "float64":
		return "a number"
	case "string":
		return "a string"
	}
	if strings.HasPrefix(goType, "[]") {
		return "a list"
	}
	return "an object"
}
