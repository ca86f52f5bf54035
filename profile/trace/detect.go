package trace

import (
	"encoding/json"
	"errors"
	"fmt"

	"plimsoll/engine"
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

// plainJSON says what is wrong with a line of JSON.
func plainJSON(err error) error {
	plain := engine.PlainJSON("the line", err)
	if errors.As(err, new(*json.SyntaxError)) {
		return fmt.Errorf("%w (hint: a trace has one JSON object a line)", plain)
	}
	return plain
}
