package simserver

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
)

// defaultMaxTokens is how long a completion without max_tokens may get: OpenAI's
// default. Chat completions may get as long as the context allows.
const defaultMaxTokens = 16

// query is a request as the client meant it.
type query struct {
	model     string
	prompt    []uint32 // tokens, at least one
	maxTokens int      // at least 1; 0 = the endpoint's default
	minTokens int
	ignoreEOS bool
	stream    bool
	usage     bool // a stream ends with a usage chunk
	liveUsage bool // and each chunk of it has usage too
	handover  transfer
}

// transfer is what prefill and decode apart tell each other through a router, in
// vLLM's words (kv_transfer_params of its NixlConnector; tests/v1/kv_connector/
// nixl_integration/toy_proxy_server.py of its main branch, November 2026).
type transfer struct {
	DoRemoteDecode  bool `json:"do_remote_decode"`  // another engine will decode: answer with what it is to be told
	DoRemotePrefill bool `json:"do_remote_prefill"` // another engine has computed the prompt
}

// body is what the two endpoints take. Sampling options that change which
// words come out, and not how many, are accepted and have no effect. What would
// need a real model is refused: a client that asks for it would wait in vain.
type body struct {
	Model               string          `json:"model"`
	Prompt              json.RawMessage `json:"prompt"`
	Messages            []message       `json:"messages"`
	MaxTokens           *int            `json:"max_tokens"`
	MaxCompletionTokens *int            `json:"max_completion_tokens"`
	MinTokens           int             `json:"min_tokens"`
	IgnoreEOS           bool            `json:"ignore_eos"`
	Stream              bool            `json:"stream"`
	StreamOptions       struct {
		IncludeUsage bool `json:"include_usage"`
		Continuous   bool `json:"continuous_usage_stats"` // vLLM's own
	} `json:"stream_options"`
	N      *int `json:"n"`
	BestOf *int `json:"best_of"`
	Echo   bool `json:"echo"`

	Stop        json.RawMessage `json:"stop"`     // a string or a list of them
	Logprobs    json.RawMessage `json:"logprobs"` // a number in completions, true or false in chat
	TopLogprobs int             `json:"top_logprobs"`

	Transfer transfer `json:"kv_transfer_params"`
}

// message is one turn of a chat; its content is a string or a list of parts.
type message struct {
	Role    string          `json:"role"`
	Content json.RawMessage `json:"content"`
}

// parseCompletion reads the body of a completions request.
func parseCompletion(data []byte) (query, error) {
	b, q, err := parseBody(data)
	if err != nil {
		return query{}, err
	}
	q.maxTokens = cmp.Or(q.maxTokens, defaultMaxTokens)
	q.prompt, err = parsePrompt(b.Prompt)
	return q, err
}

// parseChat reads the body of a chat completions request.
func parseChat(data []byte) (query, error) {
	b, q, err := parseBody(data)
	if err != nil {
		return query{}, err
	}
	if len(b.Messages) == 0 {
		return query{}, badRequest("messages is empty: want at least one message")
	}
	for i, m := range b.Messages {
		text, err := m.text()
		if err != nil {
			return query{}, badRequest("messages[%d]: %v", i, err)
		}
		// As a chat template has it: a token that names the role, then the text.
		q.prompt = appendTokens(append(q.prompt, wordToken("<|"+m.Role+"|>")), text)
	}
	q.prompt = append(q.prompt, wordToken("<|assistant|>"))
	return q, nil
}

// parseBody reads and checks what both endpoints share.
func parseBody(data []byte) (body, query, error) {
	var b body
	if err := json.Unmarshal(data, &b); err != nil {
		return body{}, query{}, badRequest("the body is not a valid request: %v", err)
	}
	q := query{model: b.Model, minTokens: b.MinTokens, ignoreEOS: b.IgnoreEOS, stream: b.Stream, usage: b.StreamOptions.IncludeUsage, handover: b.Transfer}
	q.liveUsage = q.usage && b.StreamOptions.Continuous
	limit := b.MaxTokens
	if b.MaxCompletionTokens != nil {
		limit = b.MaxCompletionTokens
	}
	switch {
	case b.N != nil && *b.N != 1:
		return body{}, query{}, badRequest("n is %d: only 1 is simulated", *b.N)
	case b.BestOf != nil && *b.BestOf != 1:
		return body{}, query{}, badRequest("best_of is %d: only 1 is simulated", *b.BestOf)
	case b.Echo:
		return body{}, query{}, badRequest("echo is not simulated")
	case asksFor(b.Stop):
		return body{}, query{}, badRequest("stop is not simulated: the text is made up, and max_tokens ends it")
	case asksFor(b.Logprobs) || b.TopLogprobs > 0:
		return body{}, query{}, badRequest("logprobs are not simulated")
	case limit != nil && *limit < 1:
		return body{}, query{}, badRequest("max_tokens is %d: want at least 1", *limit)
	case b.MinTokens < 0:
		return body{}, query{}, badRequest("min_tokens is %d: want at least 0", b.MinTokens)
	case limit != nil && b.MinTokens > *limit:
		return body{}, query{}, badRequest("min_tokens is %d: want at most max_tokens, which is %d", b.MinTokens, *limit)
	case q.handover.DoRemoteDecode && q.stream:
		return body{}, query{}, badRequest("kv_transfer_params.do_remote_decode of a stream: the parameters come with a whole answer")
	}
	if limit != nil {
		q.maxTokens = *limit
	}
	return b, q, nil
}

// asksFor reports whether a field asks for anything: clients send what they do
// not use as null, false or nothing.
func asksFor(field json.RawMessage) bool {
	return !slices.Contains([]string{"", "null", "false", "[]", `""`}, string(bytes.TrimSpace(field)))
}

// text is the message's words; parts other than text are refused.
func (m message) text() (string, error) {
	if m.Role == "" {
		return "", errors.New("role is missing")
	}
	c := bytes.TrimSpace(m.Content)
	if len(c) == 0 || string(c) == "null" {
		return "", nil
	}
	if c[0] == '"' {
		var s string
		err := json.Unmarshal(c, &s)
		return s, err
	}
	var parts []struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}
	if err := json.Unmarshal(c, &parts); err != nil {
		return "", errors.New("content is neither a string nor a list of parts")
	}
	var text []byte
	for _, p := range parts {
		if p.Type != "text" {
			return "", fmt.Errorf("content part of type %q: only text is simulated", p.Type)
		}
		text = append(append(text, p.Text...), '\n')
	}
	return string(text), nil
}

// parsePrompt reads a prompt: a string, token ids, or a list of one of these.
func parsePrompt(raw []byte) ([]uint32, error) {
	raw = bytes.TrimSpace(raw)
	if inner, ok := onlyElement(raw); ok {
		raw = inner
	}
	var tokens []uint32
	switch {
	case len(raw) == 0 || string(raw) == "null":
		return nil, badRequest("prompt is missing")
	case raw[0] == '"':
		var text string
		if err := json.Unmarshal(raw, &text); err != nil {
			return nil, badRequest("prompt: %v", err)
		}
		tokens = appendTokens(nil, text)
	case raw[0] == '[':
		var err error
		if tokens, err = parseIDs(raw); err != nil {
			return nil, err
		}
	default:
		return nil, badRequest("prompt is neither a string nor a list of token ids")
	}
	if len(tokens) == 0 {
		return nil, badRequest("prompt is empty: want at least one token")
	}
	return tokens, nil
}

// onlyElement is the one string or list inside a JSON list.
func onlyElement(raw []byte) ([]byte, bool) {
	if len(raw) < 2 || raw[0] != '[' {
		return nil, false
	}
	if first := bytes.TrimSpace(raw[1:]); first[0] != '"' && first[0] != '[' {
		return nil, false
	}
	var list []json.RawMessage
	if err := json.Unmarshal(raw, &list); err != nil || len(list) != 1 {
		return nil, false
	}
	return bytes.TrimSpace(list[0]), true
}

// parseIDs reads a JSON list of token ids, already known to be valid JSON.
// Prompts run to 100,000 ids, for which encoding/json takes milliseconds.
func parseIDs(raw []byte) ([]uint32, error) {
	ids := make([]uint32, 0, bytes.Count(raw, []byte{','})+1)
	const none = math.MaxUint64
	value := uint64(none)
	for _, c := range raw[1:] {
		switch {
		case '0' <= c && c <= '9':
			if value == none {
				value = 0
			}
			if value = value*10 + uint64(c-'0'); value > math.MaxUint32 {
				return nil, badRequest("prompt: a token id is above %d", uint32(math.MaxUint32))
			}
		case c == ',' || c == ']':
			if value != none {
				ids = append(ids, uint32(value))
			}
			value = none
		case c == ' ' || c == '\t' || c == '\n' || c == '\r':
		case c == '"' || c == '[':
			return nil, badRequest("prompt is a list of several prompts: only one is simulated")
		default:
			return nil, badRequest("prompt: a list of token ids must hold whole numbers of at least 0 only")
		}
	}
	return ids, nil
}

// RequestError is an error that the client is told.
type RequestError struct {
	Status  int // of HTTP
	Message string
}

// Error implements error.
func (e *RequestError) Error() string { return e.Message }

func badRequest(format string, args ...any) error {
	return &RequestError{http.StatusBadRequest, fmt.Sprintf(format, args...)}
}
