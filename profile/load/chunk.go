package load

import (
	"encoding/json"
	"errors"
	"math"
)

// chunk is what matters of one event of a completion stream.
type chunk struct {
	content bool   // non-empty text, content or reasoning, or a call of a tool
	finish  string // finish_reason; empty: none yet
	usage   usage
	failure string // what the server says went wrong, as it says it
}

// usage is the server's count of tokens.
type usage struct {
	seen       bool
	prompt     int
	completion int
	cached     int // of prompt; -1: not said
}

var errUsage = errors.New("usage holds something else than token counts")

// parseChunk reads one event's data. Fields of another type than expected
// count as absent, except the token counts.
func parseChunk(data []byte) (chunk, error) {
	var c chunk
	s := scan{b: data}
	first := true
	object := false // "object": "error", as older vLLM marks an error
	for s.enter('{'); s.more(&first, '}'); {
		switch string(s.key()) {
		case "choices":
			c.content, c.finish = false, ""
			s.choices(&c)
		case "usage":
			c.usage = s.usage()
		case "error":
			c.failure = s.failure()
		case "object":
			object = s.text() == "error"
		default:
			s.skip()
		}
	}
	s.end()
	if object && c.failure == "" {
		c.failure = string(data)
	}
	return c, s.err
}

// choices takes the list of choices; the client asks for one.
func (s *scan) choices(c *chunk) {
	if s.peek() != '[' {
		s.skip()
		return
	}
	first := true
	for s.enter('['); s.more(&first, ']'); {
		if s.peek() != '{' {
			s.skip()
			continue
		}
		content, finish := s.choice()
		c.content = c.content || content
		if finish != "" {
			c.finish = finish
		}
	}
}

func (s *scan) choice() (content bool, finish string) {
	var text, delta bool
	first := true
	for s.enter('{'); s.more(&first, '}'); {
		switch string(s.key()) {
		case "text":
			text = s.notEmpty()
		case "delta":
			delta = s.delta()
		case "finish_reason":
			finish = s.text()
		default:
			s.skip()
		}
	}
	return text || delta, finish
}

// delta takes a chat chunk's payload. Reasoning is output like any other; the
// field's name differs between servers and versions.
func (s *scan) delta() bool {
	if s.peek() != '{' {
		s.skip()
		return false
	}
	var content, reasoning, reasoningContent, tools bool
	first := true
	for s.enter('{'); s.more(&first, '}'); {
		switch string(s.key()) {
		case "content":
			content = s.notEmpty()
		case "reasoning":
			reasoning = s.notEmpty()
		case "reasoning_content":
			reasoningContent = s.notEmpty()
		case "tool_calls":
			tools = s.hasItems()
		default:
			s.skip()
		}
	}
	return content || reasoning || reasoningContent || tools
}

// hasItems takes any value and reports whether it is a list of something.
func (s *scan) hasItems() bool {
	if s.peek() != '[' {
		s.skip()
		return false
	}
	items, first := false, true
	for s.enter('['); s.more(&first, ']'); {
		s.skip()
		items = true
	}
	return items
}

// notEmpty takes any value and reports whether it is a string with text in it.
func (s *scan) notEmpty() bool {
	if s.peek() != '"' {
		s.skip()
		return false
	}
	raw, _ := s.str()
	return len(raw) > 0
}

// text takes any value and gives it if it is a string.
func (s *scan) text() string {
	if s.peek() != '"' {
		s.skip()
		return ""
	}
	raw, escaped := s.str()
	switch {
	case escaped:
		return unquote(raw)
	case string(raw) == "stop": // the usual ones without an allocation
		return "stop"
	case string(raw) == "length":
		return "length"
	case string(raw) == "text_completion":
		return "text_completion"
	case string(raw) == "chat.completion.chunk":
		return "chat.completion.chunk"
	}
	return string(raw)
}

func (s *scan) usage() usage {
	if s.peek() != '{' {
		s.skip()
		return usage{}
	}
	u := usage{seen: true, cached: -1}
	first := true
	for s.enter('{'); s.more(&first, '}'); {
		switch string(s.key()) {
		case "prompt_tokens":
			u.prompt = s.count(0)
		case "completion_tokens":
			u.completion = s.count(0)
		case "prompt_tokens_details":
			u.cached = s.cached()
		default:
			s.skip()
		}
	}
	return u
}

func (s *scan) cached() int {
	if s.peek() != '{' {
		s.skip()
		return -1
	}
	n := -1
	first := true
	for s.enter('{'); s.more(&first, '}'); {
		if string(s.key()) == "cached_tokens" {
			n = s.count(-1)
			continue
		}
		s.skip()
	}
	return n
}

// count takes a whole number of tokens; null is none.
func (s *scan) count(none int) int {
	if s.peek() == 'n' {
		s.skip()
		return none
	}
	n := 0
	for _, c := range s.number() {
		if !isDigit(c) || n > (math.MaxInt32-9)/10 {
			s.err = errUsage
			return none
		}
		n = n*10 + int(c-'0')
	}
	return n
}

// failure takes the value of "error" and gives its message: a string itself,
// an object's "message", or the value as it stands. Null is none.
func (s *scan) failure() string {
	s.peek()
	from := s.i
	s.skip()
	if s.err != nil {
		return ""
	}
	return errorText(s.b[from:s.i])
}

func errorText(value []byte) string {
	var v any
	if err := json.Unmarshal(value, &v); err != nil || v == nil {
		return ""
	}
	if o, ok := v.(map[string]any); ok {
		v = o["message"]
	}
	if t, ok := v.(string); ok && t != "" {
		return t
	}
	return string(value)
}
