package engine

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestPlainJSONNamesNoGoType(t *testing.T) {
	for text, want := range map[string]string{
		`[]`:          "the file: got a list, want an object",
		`3`:           "the file: got a number, want an object",
		`"x"`:         "the file: got a string, want an object",
		`{"n": "x"}`:  "n: got a string, want a whole number",
		`{"n": 3.5}`:  "n: got number 3.5, want a whole number",
		`{"l": {}}`:   "l: got an object, want a list",
		`{"n": `:      "bad JSON: the file ends within a value: it may be cut off",
		``:            "bad JSON: the file ends within a value: it may be cut off",
		`{"n": 1} x}`: "bad JSON: invalid character 'x' after top-level value at byte 10",
	} {
		var v struct {
			N int   `json:"n"`
			L []int `json:"l"`
		}
		if got := PlainJSON("the file", json.Unmarshal([]byte(text), &v)).Error(); got != want || strings.Contains(got, "struct") {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}
