package simserver

import (
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"testing"
)

func FuzzParse(f *testing.F) {
	for _, s := range []string{
		`{"prompt":"one two","max_tokens":5,"stream":true,"stream_options":{"include_usage":true}}`,
		`{"prompt":[1,2,3]}`, `{"prompt":[[1, 2]]}`, `{"prompt":["a b"]}`, `{"prompt":[4294967296]}`, `{"prompt":[ ]}`, `{"prompt":[[]]}`,
		`{"messages":[{"role":"user","content":"hi"}],"max_completion_tokens":2,"min_tokens":1,"ignore_eos":true}`,
		`{"messages":[{"role":"user","content":[{"type":"text","text":"hi"}]}],"n":1}`, `{`, `null`, `[]`, `{"prompt":null,"max_tokens":null}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, parse := range []func([]byte) (query, error){parseCompletion, parseChat} {
			q, err := parse(data)
			var told *RequestError
			switch {
			case err != nil && (!errors.As(err, &told) || told.Status != http.StatusBadRequest || told.Message == ""):
				t.Errorf("error %v is not the client's", err)
			case err == nil && (len(q.prompt) == 0 || q.maxTokens < 0 || q.minTokens < 0):
				t.Errorf("accepted %+v", q)
			}
		}
	})
}

// FuzzTokenIDs holds the quick reader of token ids against encoding/json.
func FuzzTokenIDs(f *testing.F) {
	for _, s := range []string{`[1,2,3]`, `[ 1 ,	2 ]`, `[]`, `[-1]`, `[1.0]`, `[1e2]`, `[4294967295]`, `[4294967296]`, `[[1]]`, `[0,00]`, `["1"]`, `[null,1]`, `[true]`, `[18446744073709551616]`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if !json.Valid(data) || len(data) == 0 || data[0] != '[' {
			return
		}
		var want []*uint32
		errWant := json.Unmarshal(data, &want)
		if errWant == nil && slices.Contains(want, nil) {
			errWant = errors.New("null is not a token id")
		}
		got, err := parseIDs(data)
		if (err == nil) != (errWant == nil) {
			t.Fatalf("parseIDs(%s): %v; encoding/json: %v", data, err, errWant)
		}
		if err == nil && !slices.EqualFunc(got, want, func(a uint32, b *uint32) bool { return a == *b }) {
			t.Fatalf("parseIDs(%s) = %v", data, got)
		}
	})
}
