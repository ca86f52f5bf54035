package frontend

import (
	"encoding/json"
	"fmt"
	"time"

	"plimsoll/engine"
)

// firstAnswer is a prefill worker's: one token of each choice.
type firstAnswer struct {
	ID      string
	Object  string
	Created int64
	Model   string
	Choices []struct {
		Index   int
		Text    *string
		Message *struct {
			Role    string
			Content *string
		}
		LogProbs     json.RawMessage `json:"logprobs"`
		FinishReason *string         `json:"finish_reason"`
	}
	Usage    json.RawMessage
	Transfer json.RawMessage `json:"kv_transfer_params"`
}

// handOver takes a request from the prefill worker, which has answered, to a
// decode worker.
func (c *call) handOver(a answer) error {
	data, err := readAll(a)
	a.done()
	if err != nil {
		return err
	}
	var f firstAnswer
	if err := json.Unmarshal(data, &f); err != nil || len(f.Choices) == 0 {
		return broken(a.member, fmt.Errorf("it is no answer: %.200s", data))
	}
	if f.ended() {
		return c.whole(a, &f, data)
	}
	goesOn := f.produced() > 0
	if goesOn && c.q.Stream {
		if err := c.begin(a, &f); err != nil {
			return err
		}
	}
	changes := map[string]any{}
	if len(f.Transfer) > 0 && string(f.Transfer) != "null" {
		changes["kv_transfer_params"] = f.Transfer
	}
	b, err := c.send(second, func(engine.Role) ([]byte, error) { return c.q.counted(changes) })
	if err != nil {
		return err
	}
	defer b.done()
	if !goesOn {
		return c.pass(b, nil)
	}
	return c.pass(b, &f)
}

// produced is how many tokens a decode worker will not give again; 0 = it begins
// with the first one.
func (f *firstAnswer) produced() int {
	var t struct {
		ProducedTokens int `json:"produced_tokens"`
	}
	if json.Unmarshal(f.Transfer, &t) != nil {
		return 0
	}
	return t.ProducedTokens
}

// ended reports whether nothing comes after the first token.
func (f *firstAnswer) ended() bool {
	for _, c := range f.Choices {
		if c.FinishReason == nil || *c.FinishReason == "length" {
			return false
		}
	}
	return true
}

// begin is the start of a stream, whose rest is a decode worker's.
func (c *call) begin(a answer, f *firstAnswer) error {
	event, err := f.event(false)
	if err != nil {
		return err
	}
	c.commit(a.resp, streamType)
	if err := c.write(event); err != nil {
		return err
	}
	c.t.token(time.Now())
	return nil
}

// whole answers with the prefill worker's token alone.
func (c *call) whole(a answer, f *firstAnswer, data []byte) error {
	var e event
	if json.Unmarshal(data, &e) == nil {
		c.count(e)
	}
	if !c.q.Stream {
		var all object
		err := json.Unmarshal(data, &all)
		delete(all, "kv_transfer_params")
		if err == nil {
			data, err = json.Marshal(all)
		}
		if err != nil {
			return broken(a.member, err)
		}
		return c.writeWhole(a, data)
	}
	out, err := f.event(true)
	if err != nil {
		return err
	}
	if c.q.StreamOptions.IncludeUsage {
		usage, err := json.Marshal(f.chunk([]any{}, f.Usage))
		if err != nil {
			return err
		}
		out = fmt.Appendf(out, "data: %s\n\n", usage)
	}
	c.commit(a.resp, streamType)
	if err := c.write(append(out, "data: [DONE]\n\n"...)); err != nil {
		return err
	}
	c.t.token(time.Now())
	return nil
}

// event is the first event of a stream; the last one with content where final.
func (f *firstAnswer) event(final bool) ([]byte, error) {
	var choices []any
	for _, c := range f.Choices {
		out := map[string]any{"index": c.Index, "logprobs": c.LogProbs, "finish_reason": nil}
		if final {
			out["finish_reason"] = c.FinishReason
		}
		if c.Message != nil {
			out["delta"] = map[string]any{"role": c.Message.Role, "content": c.Message.Content}
		} else {
			out["text"] = c.Text
		}
		choices = append(choices, out)
	}
	b, err := json.Marshal(f.chunk(choices, nil))
	if err != nil {
		return nil, err
	}
	return fmt.Appendf(nil, "data: %s\n\n", b), nil
}

// chunk is an event's JSON.
func (f *firstAnswer) chunk(choices []any, usage json.RawMessage) any {
	object := f.Object
	if object == "chat.completion" {
		object = "chat.completion.chunk"
	}
	return struct {
		ID      string          `json:"id"`
		Object  string          `json:"object"`
		Created int64           `json:"created"`
		Model   string          `json:"model"`
		Choices []any           `json:"choices"`
		Usage   json.RawMessage `json:"usage,omitempty"`
	}{f.ID, object, f.Created, f.Model, choices, usage}
}

// prepend puts the first token before a decode worker's answer that is not
// streamed; f nil leaves it as it is.
func (f *firstAnswer) prepend(data []byte) ([]byte, error) {
	if f == nil {
		return data, nil
	}
	var all object
	if err := json.Unmarshal(data, &all); err != nil {
		return nil, err
	}
	var choices []object
	if err := json.Unmarshal(all["choices"], &choices); err != nil {
		return nil, err
	}
	if len(choices) != len(f.Choices) {
		return nil, fmt.Errorf("it has %d choices, and the prefill worker's has %d", len(choices), len(f.Choices))
	}
	for i, c := range f.Choices {
		if err := prependText(choices[i], "text", c.Text); err != nil {
			return nil, err
		}
		if c.Message == nil {
			continue
		}
		var message object
		if err := json.Unmarshal(choices[i]["message"], &message); err != nil {
			return nil, err
		}
		if err := prependText(message, "content", c.Message.Content); err != nil {
			return nil, err
		}
		b, err := json.Marshal(message)
		if err != nil {
			return nil, err
		}
		choices[i]["message"] = b
	}
	b, err := json.Marshal(choices)
	if err != nil {
		return nil, err
	}
	all["choices"] = b
	return json.Marshal(all)
}

// prependText puts text before the string at a key; nil = none.
func prependText(o object, key string, text *string) error {
	if text == nil {
		return nil
	}
	var rest string
	if err := json.Unmarshal(o[key], &rest); err != nil {
		return err
	}
	b, err := json.Marshal(*text + rest)
	o[key] = b
	return err
}
