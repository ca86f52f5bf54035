package trace

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

// A Prompt is one request of a dataset: a text, and how long its answer was.
type Prompt struct {
	Text string
	ISL  int // estimated tokens of Text
	OSL  int // output tokens: as the file says, or estimated from its answer; 0 = the file has neither
	// Estimated says that OSL is an estimate.
	Estimated bool
	Line      int // of the file
}

// Bounds of a dataset: what is beyond is left out, or refused where it is one line.
const (
	// maxPrompts is how many prompts are read.
	maxPrompts = 100_000
	// maxPromptBytes is how many bytes of text they have together.
	maxPromptBytes = 512 << 20
)

// bytesPerToken is what English text has on average under the vocabularies in
// use: "1 token ~= 4 chars in English" (OpenAI, What are tokens and how to count
// them?, 2026-08). It is for planning only; the server's usage counts.
const bytesPerToken = 4

// estimateTokens is about how many tokens a text has, at least 1.
func estimateTokens(text string) int {
	return min(max(1, (len(text)+bytesPerToken-1)/bytesPerToken), MaxTokens)
}

// ReadPrompts reads a dataset, gzip or not: JSONL, one request a line, each
//
//	{"prompt": "…", "output_tokens": n}               output_tokens may be missing
//	{"messages": [{"role": "user", "content": "…"}]}  OpenAI's; content a text, or parts of which those of type text count
//	{"conversations": [{"from": "human", "value": "…"}, {"from": "gpt", "value": "…"}]}   ShareGPT's
//
// Of a conversation the prompt is what comes before the first answer, joined by
// blank lines; that answer gives OSL where nothing else does. Lines without a
// prompt are an error, as in every trace; the name is for messages only. At most
// 100,000 prompts are read, and 512 MiB of their text.
func ReadPrompts(r io.Reader, name string) (all []Prompt, err error) {
	l, err := newLines(r, name)
	if err != nil {
		return nil, err
	}
	total := 0
	for line, err := range l.all {
		if err != nil {
			return nil, err
		}
		p, err := parsePrompt(line)
		if err != nil {
			return nil, l.fail(err)
		}
		p.Line = l.n
		if total += len(p.Text); len(all) == maxPrompts || total > maxPromptBytes {
			return all, nil
		}
		all = append(all, p)
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%s: no prompts in it (hint: a dataset has one JSON object a line, with prompt, messages or conversations)", name)
	}
	return all, nil
}

// turn is one message, under either convention's names.
type turn struct {
	Role    string          `json:"role"`
	From    string          `json:"from"`
	Content json.RawMessage `json:"content"`
	Value   *string         `json:"value"`
}

func parsePrompt(line []byte) (Prompt, error) {
	var v struct {
		Prompt        *string `json:"prompt"`
		OutputTokens  *int    `json:"output_tokens"`
		Messages      []turn  `json:"messages"`
		Conversations []turn  `json:"conversations"`
	}
	if err := json.Unmarshal(line, &v); err != nil {
		return Prompt{}, plainJSON(err)
	}
	var p Prompt
	var answer string
	var err error
	switch {
	case v.Prompt != nil:
		p.Text = *v.Prompt
	case v.Messages != nil:
		p.Text, answer, err = firstExchange("messages", v.Messages)
	case v.Conversations != nil:
		p.Text, answer, err = firstExchange("conversations", v.Conversations)
	default:
		return p, errors.New("prompt, messages and conversations are missing (hint: one of them holds the text)")
	}
	if err != nil {
		return p, err
	}
	if strings.TrimSpace(p.Text) == "" {
		return p, errors.New("prompt is empty")
	}
	p.ISL = estimateTokens(p.Text)
	switch {
	case v.OutputTokens != nil && (*v.OutputTokens < 1 || *v.OutputTokens > MaxTokens):
		return p, fmt.Errorf("output_tokens %d is out of range: want 1 to %d", *v.OutputTokens, MaxTokens)
	case v.OutputTokens != nil:
		p.OSL = *v.OutputTokens
	case answer != "":
		p.OSL, p.Estimated = estimateTokens(answer), true
	}
	return p, nil
}

// firstExchange is what comes before the first answer, and the answer.
func firstExchange(field string, turns []turn) (prompt, answer string, err error) {
	var parts []string
	for i, t := range turns {
		text, err := t.text()
		if err != nil {
			return "", "", fmt.Errorf("%s[%d]: %w", field, i, err)
		}
		if t.answers() {
			if len(parts) == 0 {
				continue // an answer to nothing: some conversations begin so
			}
			answer = text
			break
		}
		parts = append(parts, text)
	}
	if len(parts) == 0 {
		return "", "", fmt.Errorf("%s: nobody asks anything (hint: want a message of a user, or from a human)", field)
	}
	return strings.Join(parts, "\n\n"), answer, nil
}

// answers reports whether a model speaks.
func (t turn) answers() bool {
	switch strings.ToLower(t.Role + t.From) {
	case "assistant", "gpt", "chatgpt", "bot", "model", "bard", "bing":
		return true
	}
	return false
}

// text is what was said: a string, or a list of parts.
func (t turn) text() (string, error) {
	if t.Value != nil {
		return *t.Value, nil
	}
	if len(t.Content) == 0 {
		return "", errors.New("content (or value) is missing")
	}
	var s string
	if json.Unmarshal(t.Content, &s) == nil {
		return s, nil
	}
	var parts []struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}
	if err := json.Unmarshal(t.Content, &parts); err != nil {
		return "", errors.New("content: want a string, or a list of parts with type and text")
	}
	var texts []string
	for _, p := range parts {
		if p.Type == "text" {
			texts = append(texts, p.Text)
		}
	}
	return strings.Join(texts, "\n"), nil
}
