package trace

import (
	"strings"
	"testing"
)

func TestReadPrompts(t *testing.T) {
	const file = `{"prompt": "Why is the sky blue?", "output_tokens": 12}
{"messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": [{"type": "text", "text": "Hello"}, {"type": "image_url"}]}]}

{"id": "x", "conversations": [{"from": "gpt", "value": "Hi!"}, {"from": "human", "value": "Tell me more"}, {"from": "gpt", "value": "12345678"}, {"from": "human", "value": "ignored"}]}
{"messages": [{"role": "assistant", "content": "How can I help you today?"}, {"role": "user", "content": "Hello"}]}
`
	ps, err := ReadPrompts(strings.NewReader(file), "f")
	if err != nil {
		t.Fatal(err)
	}
	want := []Prompt{
		{Text: "Why is the sky blue?", ISL: 5, OSL: 12, Line: 1},
		{Text: "Be brief.\n\nHello", ISL: 4, Line: 2},
		{Text: "Tell me more", ISL: 3, OSL: 2, Estimated: true, Line: 4},
		{Text: "Hello", ISL: 2, Line: 5}, // what was said before it answers nothing
	}
	if len(ps) != len(want) {
		t.Fatalf("%+v", ps)
	}
	for i := range want {
		if ps[i] != want[i] {
			t.Errorf("%+v, want %+v", ps[i], want[i])
		}
	}
}

// An error names the line and the field.
func TestReadPromptsRefuses(t *testing.T) {
	for file, want := range map[string]string{
		"":                                      "f: no prompts in it",
		"\n\n":                                  "f: no prompts in it",
		`{"prompt": "a"}` + "\n" + `{"text":1}`: "f:2: prompt, messages and conversations are missing",
		`{"prompt": 3}`:                         "f:1: prompt: got a number, want a string",
		`{"prompt": "  "}`:                      "f:1: prompt is empty",
		`{"prompt": "a", "output_tokens": 0}`:   "f:1: output_tokens 0 is out of range",
		`{"prompt": "a", "output_tokens": "b"}`: "f:1: output_tokens: got a string, want a whole number",
		`{"messages": []}`:                      "f:1: messages: nobody asks anything",
		`{"messages": [{"role": "user"}]}`:      "f:1: messages[0]: content (or value) is missing",
		`{"messages": [{"role": "user", "content": 7}]}`:     "f:1: messages[0]: content: want a string",
		`{"conversations": [{"from": "gpt", "value": "x"}]}`: "f:1: conversations: nobody asks anything",
		`not json`: "f:1: bad JSON",
	} {
		if _, err := ReadPrompts(strings.NewReader(file), "f"); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q: %v, want %q", file, err, want)
		}
	}
}

func FuzzReadPrompts(f *testing.F) {
	f.Add([]byte(`{"prompt": "Why?", "output_tokens": 12}`))
	f.Add([]byte(`{"messages": [{"role": "user", "content": [{"type": "text", "text": "Hello"}]}]}`))
	f.Add([]byte(`{"conversations": [{"from": "human", "value": "a"}, {"from": "gpt", "value": "b"}]}`))
	f.Add([]byte("\x1f\x8b"))
	f.Fuzz(func(t *testing.T, b []byte) {
		ps, err := ReadPrompts(strings.NewReader(string(b)), "f")
		if (err == nil) != (len(ps) > 0) {
			t.Errorf("%d prompts and %v", len(ps), err)
		}
		for _, p := range ps {
			if p.Text == "" || p.ISL < 1 || p.ISL > MaxTokens || p.OSL < 0 || p.OSL > MaxTokens || p.Line < 1 {
				t.Errorf("%+v", p)
			}
		}
	})
}
