package simserver

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
)

// usage is the token count of an answer.
type usage struct {
	Prompt     int `json:"prompt_tokens"`
	Total      int `json:"total_tokens"`
	Completion int `json:"completion_tokens"`
	Details    struct {
		Cached int `json:"cached_tokens"`
	} `json:"prompt_tokens_details"`
}

func newUsage(prompt, completion, cached int) usage {
	u := usage{Prompt: prompt, Total: prompt + completion, Completion: completion}
	u.Details.Cached = cached
	return u
}

// dialect is what differs between the two endpoints' answers.
type dialect struct {
	idPrefix            string
	object, chunkObject string
	chat                bool
}

var (
	completionDialect = dialect{idPrefix: "cmpl-", object: "text_completion", chunkObject: "text_completion"}
	chatDialect       = dialect{idPrefix: "chatcmpl-", object: "chat.completion", chunkObject: "chat.completion.chunk", chat: true}
)

// envelope is the head that all pieces of an answer share.
type envelope struct {
	ID      string `json:"id"`
	Object  string `json:"object"`
	Created int64  `json:"created"`
	Model   string `json:"model"`
}

// chunks renders the server-sent events of one answer. The JSON around a word
// is rendered once; a word is printable ASCII and needs no escapes.
type chunks struct {
	head      string // up to the choices' value
	before    string // from head's end to the word
	after     string // from the word to the choices' end
	afterLast string // the same with a finish reason
	role      string // an event before the first word; empty = none
	answer    answer
	last      int // index of the last word
}

func newChunks(d dialect, e envelope, a answer, n int, f finish) chunks {
	e.Object = d.chunkObject
	head, err := json.Marshal(e)
	if err != nil {
		panic("simserver: strings and numbers do not marshal: " + err.Error())
	}
	c := chunks{answer: a, last: n - 1}
	c.head = "data: " + string(head[:len(head)-1]) + `,"choices":`
	open, shut := `[{"index":0,"text":"`, `","logprobs":null`
	if d.chat {
		open, shut = `[{"index":0,"delta":{"content":"`, `"},"logprobs":null`
		c.role = c.head + `[{"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}]}` + "\n\n"
	}
	c.before = c.head + open
	c.after = shut + `,"finish_reason":null}]`
	c.afterLast = shut + `,"finish_reason":"` + string(f) + `"}]`
	return c
}

// appendToken appends the event of the i-th word, the role's before the first; u
// nil = without usage.
func (c *chunks) appendToken(b []byte, i int, u *usage) []byte {
	if i == 0 {
		b = append(b, c.role...)
	}
	b = append(b, c.before...)
	b = c.answer.appendWord(b, i)
	if i == c.last {
		b = append(b, c.afterLast...)
	} else {
		b = append(b, c.after...)
	}
	return appendUsage(b, u)
}

// appendUsage ends an event after its choices, with usage unless that is nil.
func appendUsage(b []byte, u *usage) []byte {
	if u != nil {
		b = fmt.Appendf(b, `,"usage":{"prompt_tokens":%d,"total_tokens":%d,"completion_tokens":%d,"prompt_tokens_details":{"cached_tokens":%d}}`,
			u.Prompt, u.Total, u.Completion, u.Details.Cached)
	}
	return append(b, "}\n\n"...)
}

// appendEnd appends the events after the last word; u nil = without usage.
func (c *chunks) appendEnd(b []byte, u *usage) []byte {
	if u != nil {
		b = append(append(b, c.head...), "[]"...)
		b = appendUsage(b, u)
	}
	return append(b, "data: [DONE]\n\n"...)
}

// whole is an answer that is not streamed; next nil = no other engine goes on.
func whole(d dialect, e envelope, text string, f finish, u usage, next *transfer) any {
	type choice struct {
		Index    int      `json:"index"`
		Text     *string  `json:"text,omitempty"`
		Message  *message `json:"message,omitempty"`
		LogProbs *int     `json:"logprobs"`
		Finish   finish   `json:"finish_reason"`
	}
	e.Object = d.object
	c := choice{Text: &text, Finish: f}
	if d.chat {
		c.Text, c.Message = nil, &message{Role: "assistant", Content: []byte(strconv.Quote(text))}
	}
	return struct {
		envelope
		Choices []choice `json:"choices"`
		Usage   usage    `json:"usage"`

		Transfer *transfer `json:"kv_transfer_params,omitempty"`
	}{e, []choice{c}, u, next}
}

// writeJSON answers with v.
func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // fails only where the client is gone
}

// WriteError answers with an error in OpenAI's form.
func WriteError(w http.ResponseWriter, status int, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(ErrorBody(status, message)) // fails only where the client is gone
}

// ErrorBody is an error in OpenAI's form, one line of JSON.
func ErrorBody(status int, message string) []byte {
	kind := "invalid_request_error"
	switch {
	case status == http.StatusNotFound:
		kind = "not_found_error"
	case status >= http.StatusInternalServerError:
		kind = "server_error"
	}
	type detail struct {
		Message string  `json:"message"`
		Type    string  `json:"type"`
		Param   *string `json:"param"`
		Code    int     `json:"code"`
	}
	b, err := json.Marshal(struct {
		Error detail `json:"error"`
	}{detail{Message: message, Type: kind, Code: status}})
	if err != nil {
		panic("simserver: strings and numbers do not marshal: " + err.Error())
	}
	return append(b, '\n')
}
