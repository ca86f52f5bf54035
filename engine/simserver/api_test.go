package simserver

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"plimsoll/engine"
	"plimsoll/engine/sim"
)

// ids is a prompt of n token ids from start on, as JSON.
func ids(start, n int) string {
	s := make([]string, n)
	for i := range s {
		s[i] = fmt.Sprint(start + i)
	}
	return "[" + strings.Join(s, ",") + "]"
}

func TestCompletion(t *testing.T) {
	s := serve(t, testOptions())
	status, r := s.post("/v1/completions", `{"model":"test/model","prompt":"one two three","max_tokens":7,"ignore_eos":true,"temperature":0.5,"stop":[],"logprobs":null}`)
	if status != http.StatusOK || len(r.Choices) != 1 || r.Object != "text_completion" || r.Model != "test/model" || !strings.HasPrefix(r.ID, "cmpl-") {
		t.Fatalf("status %d: %+v", status, r)
	}
	if n := len(strings.Fields(*r.Choices[0].Text)); n != 7 || (*r.Choices[0].Text)[0] != ' ' {
		t.Errorf("text %q: want 7 words, a space before each", *r.Choices[0].Text)
	}
	if *r.Choices[0].Finish != "length" || r.Usage.Prompt != 3 || r.Usage.Completion != 7 || r.Usage.Total != 10 || r.Usage.Details.Cached != 0 {
		t.Errorf("finish %q, usage %+v", *r.Choices[0].Finish, r.Usage)
	}
}

func TestStreamedCompletion(t *testing.T) {
	s := serve(t, testOptions())
	const body = `{"prompt":"one two three","max_tokens":7,"ignore_eos":true`
	_, whole := s.post("/v1/completions", body+`}`)
	got := s.stream("/v1/completions", body+`,"stream":true,"stream_options":{"include_usage":true}}`)
	if len(got) != 9 || got[8] != "[DONE]" {
		t.Fatalf("%d events, want 7 tokens, usage, the end: %q", len(got), got)
	}
	text := ""
	for i, data := range got[:7] {
		r := decode(t, data)
		word := *r.Choices[0].Text
		text += word
		if len(strings.Fields(word)) != 1 || word[0] != ' ' {
			t.Errorf("chunk %d holds %q: want one word after a space", i, word)
		}
		if last := r.Choices[0].Finish != nil; last != (i == 6) || last && *r.Choices[0].Finish != "length" {
			t.Errorf("chunk %d: %s", i, data)
		}
		if r.Usage != nil {
			t.Errorf("chunk %d has usage: %s", i, data)
		}
	}
	if text != *whole.Choices[0].Text {
		t.Errorf("streamed %q, whole %q", text, *whole.Choices[0].Text)
	}
	if r := decode(t, got[7]); len(r.Choices) != 0 || r.Usage.Prompt != 3 || r.Usage.Completion != 7 {
		t.Errorf("usage chunk: %s", got[7])
	}
}

// As vLLM does where it is asked: token counts with each chunk of a stream.
func TestContinuousUsage(t *testing.T) {
	got := serve(t, testOptions()).stream("/v1/completions",
		`{"prompt":"one two three","max_tokens":4,"ignore_eos":true,"stream":true,"stream_options":{"include_usage":true,"continuous_usage_stats":true}}`)
	if len(got) != 6 {
		t.Fatalf("%d events, want 4 tokens, usage, the end: %q", len(got), got)
	}
	for i, data := range got[:5] {
		r := decode(t, data)
		if want := min(i+1, 4); r.Usage == nil || r.Usage.Prompt != 3 || r.Usage.Completion != want || r.Usage.Total != 3+want || len(r.Choices) != min(1, 4-i) {
			t.Errorf("chunk %d: %s", i, data)
		}
	}
}

func TestStreamWithoutUsage(t *testing.T) {
	s := serve(t, testOptions())
	if got := s.stream("/v1/completions", `{"prompt":"a","max_tokens":1,"stream":true}`); len(got) != 2 || strings.Contains(got[0], "usage") {
		t.Errorf("events %q: want one token and the end", got)
	}
}

func TestChat(t *testing.T) {
	s := serve(t, testOptions())
	const body = `{"messages":[{"role":"system","content":"be brief"},{"role":"user","content":[{"type":"text","text":"hello there"}]}],"max_completion_tokens":3,"ignore_eos":true`
	status, r := s.post("/v1/chat/completions", body+`}`)
	if status != http.StatusOK || r.Object != "chat.completion" || r.Choices[0].Message.Role != "assistant" || r.Choices[0].Text != nil {
		t.Fatalf("status %d: %+v", status, r)
	}
	if n := len(strings.Fields(r.Choices[0].Message.Content)); n != 3 || r.Usage.Completion != 3 {
		t.Errorf("%q: want 3 words", r.Choices[0].Message.Content)
	}
	// Two words and a role, twice, and the role of the answer.
	if r.Usage.Prompt != 7 {
		t.Errorf("prompt tokens %d, want 7", r.Usage.Prompt)
	}
	got := s.stream("/v1/chat/completions", body+`,"stream":true}`)
	if len(got) != 5 {
		t.Fatalf("%d events, want the role, 3 tokens, the end: %q", len(got), got)
	}
	if d := decode(t, got[0]).Choices[0].Delta; d.Role != "assistant" || d.Content != "" {
		t.Errorf("first chunk %s: want the role alone", got[0])
	}
	text := ""
	for _, data := range got[1:4] {
		r := decode(t, data)
		text += r.Choices[0].Delta.Content
		if r.Object != "chat.completion.chunk" || r.Choices[0].Delta.Role != "" {
			t.Errorf("chunk %s", data)
		}
	}
	if text != r.Choices[0].Message.Content {
		t.Errorf("streamed %q, whole %q", text, r.Choices[0].Message.Content)
	}
}

func TestPromptForms(t *testing.T) {
	s := serve(t, testOptions())
	for _, c := range []struct {
		prompt string
		tokens int // 0 = refused
	}{
		{`"one two\n three"`, 3},
		{`["one two"]`, 2},
		{`[5,6,7,8]`, 4},
		{` [ [ 5 , 6 ] ] `, 2},
		{`[4294967295]`, 1},
		{`["one","two"]`, 0},
		{`[[1],[2]]`, 0},
		{`[4294967296]`, 0},
		{`[-1]`, 0},
		{`[1.5]`, 0},
		{`[1e3]`, 0},
		{`[null]`, 0},
		{`[1,"a"]`, 0},
		{`["a",1]`, 0},
		{`[[["a"]]]`, 0},
		{`""`, 0},
		{`" "`, 0},
		{`[]`, 0},
		{`[""]`, 0},
		{`[[]]`, 0},
		{`null`, 0},
		{`7`, 0},
		{`{}`, 0},
		{`true`, 0},
	} {
		status, r := s.post("/v1/completions", `{"prompt":`+c.prompt+`,"max_tokens":1}`)
		switch {
		case c.tokens == 0 && (status != http.StatusBadRequest || r.Error == nil || !strings.Contains(r.Error.Message, "prompt")):
			t.Errorf("prompt %s: status %d, %+v: want 400 that speaks of the prompt", c.prompt, status, r.Error)
		case c.tokens > 0 && (status != http.StatusOK || r.Usage.Prompt != c.tokens):
			t.Errorf("prompt %s: status %d, %+v: want %d tokens", c.prompt, status, r, c.tokens)
		}
	}
}

func TestErrors(t *testing.T) {
	o := testOptions()
	o.Sim.Limits.MaxModelLen = 100
	s := serve(t, o)
	const completions, chat = "/v1/completions", "/v1/chat/completions"
	for _, c := range []struct {
		method, path, body string
		status             int
		message            string
	}{
		{"POST", completions, `{`, 400, "not a valid request"},
		{"POST", completions, ``, 400, "not a valid request"},
		{"POST", completions, `[]`, 400, "not a valid request"},
		{"POST", completions, `{"prompt":"a","max_tokens":"many"}`, 400, "max_tokens"},
		{"POST", completions, `{"prompt":"a","max_tokens":0}`, 400, "max_tokens is 0"},
		{"POST", completions, `{"prompt":"a","max_tokens":5,"min_tokens":6}`, 400, "min_tokens is 6"},
		{"POST", completions, `{"prompt":"a","min_tokens":-1}`, 400, "min_tokens is -1"},
		{"POST", completions, `{"prompt":"a","n":2}`, 400, "n is 2"},
		{"POST", completions, `{"prompt":"a","best_of":2}`, 400, "best_of is 2"},
		{"POST", completions, `{"prompt":"a","echo":true}`, 400, "echo"},
		{"POST", completions, `{"prompt":"a","stop":["x"]}`, 400, "stop is not simulated"},
		{"POST", completions, `{"prompt":"a","stop":"x"}`, 400, "stop is not simulated"},
		{"POST", completions, `{"prompt":"a","logprobs":0}`, 400, "logprobs are not simulated"},
		{"POST", "/v1/chat/completions", `{"messages":[{"role":"user","content":"a"}],"logprobs":true}`, 400, "logprobs are not simulated"},
		{"POST", "/v1/chat/completions", `{"messages":[{"role":"user","content":"a"}],"top_logprobs":3}`, 400, "logprobs are not simulated"},
		{"POST", completions, `{"prompt":"a","model":"other"}`, 404, `no model "other"`},
		{"POST", completions, `{"prompt":` + ids(1, 100) + `}`, 400, "100 prompt and 16 output tokens are more than the 100"},
		{"POST", completions, `{"prompt":"a","max_tokens":100}`, 400, "1 prompt and 100 output tokens"},
		{"POST", completions, `{"prompt":"a","max_tokens":9223372036854775807}`, 400, "more than the 100"},
		{"POST", chat, `{"messages":[]}`, 400, "messages is empty"},
		{"POST", chat, `{"messages":[{"content":"a"}]}`, 400, "role is missing"},
		{"POST", chat, `{"messages":[{"role":"user","content":7}]}`, 400, "messages[0]"},
		{"POST", chat, `{"messages":[{"role":"user","content":[{"type":"image_url"}]}]}`, 400, `"image_url"`},
		{"GET", completions, ``, 405, "want POST"},
		{"POST", "/v1/models", ``, 405, "want GET"},
		{"POST", "/v1/embeddings", ``, 404, "no such path"},
	} {
		t.Run(c.method+c.path+c.body[:min(len(c.body), 40)], func(t *testing.T) {
			a := s.send(c.method, c.path, c.body)
			r := decode(t, a.body)
			if r.Error == nil {
				t.Fatalf("no error in %s", a.body)
			}
			if a.status != c.status || r.Error.Code != c.status || !strings.Contains(r.Error.Message, c.message) || r.Error.Type == "" {
				t.Errorf("status %d, %+v; want %d, %q", a.status, *r.Error, c.status, c.message)
			}
		})
	}
	if _, r := s.post(completions, `{"prompt":"a"}`, WarmUpHeader, "perhaps"); r.Error == nil || !strings.Contains(r.Error.Message, WarmUpHeader) {
		t.Errorf("a warm-up header that is neither true nor false: %+v", r.Error)
	}
}

func TestBodyIsBounded(t *testing.T) {
	s := serve(t, testOptions())
	status, r := s.post("/v1/completions", `{"prompt":"`+strings.Repeat("a ", maxBody/2)+`"}`)
	if status != http.StatusRequestEntityTooLarge || !strings.Contains(r.Error.Message, "larger than 16777216 bytes") {
		t.Errorf("status %d, %+v", status, r.Error)
	}
}

func TestAnswersFollowFromSeedAndPrompt(t *testing.T) {
	text := func(seed uint64, prompt string) string {
		o := testOptions()
		o.Sim.Seed = seed
		_, r := serve(t, o).post("/v1/completions", `{"prompt":`+prompt+`,"max_tokens":300}`)
		return *r.Choices[0].Text
	}
	a := text(1, `"x y"`)
	if b := text(1, `"x y"`); a != b {
		t.Errorf("%q, then %q", a, b)
	}
	if text(2, `"x y"`) == a || text(1, `"x z"`) == a {
		t.Error("another seed or another prompt must give another answer")
	}
}

func TestWhereAnswersEnd(t *testing.T) {
	s := serve(t, testOptions())
	prompt, end := "", 0
	for i := 0; end < 20 || end > 60; i++ { // a prompt whose answer is neither short nor long
		prompt = fmt.Sprintf(`"question %d"`, i)
		end = newAnswer(0, appendTokens(nil, strings.Trim(prompt, `"`))).end()
	}
	for _, c := range []struct {
		options string
		tokens  int
		finish  string
	}{
		{`"max_tokens":1000`, end, "stop"},
		{fmt.Sprintf(`"max_tokens":%d`, end), end, "length"},
		{`"max_tokens":5`, 5, "length"},
		{`"max_tokens":100,"ignore_eos":true`, 100, "length"},
		{`"max_tokens":100,"min_tokens":90`, 90, "stop"},
		{`"max_tokens":100,"min_tokens":100`, 100, "length"},
		{`"stream":false`, 16, "length"},
	} {
		_, r := s.post("/v1/completions", `{"prompt":`+prompt+`,`+c.options+`}`)
		if r.Usage.Completion != c.tokens || *r.Choices[0].Finish != c.finish || len(strings.Fields(*r.Choices[0].Text)) != c.tokens {
			t.Errorf("%s: %d tokens, finish %q; want %d, %q", c.options, r.Usage.Completion, *r.Choices[0].Finish, c.tokens, c.finish)
		}
	}
	_, r := s.post("/v1/chat/completions", `{"messages":[{"role":"user","content":"a question"}]}`)
	if want := newAnswer(0, appendTokens(nil, "<|user|> a question <|assistant|>")).end(); r.Usage.Completion != want || *r.Choices[0].Finish != "stop" {
		t.Errorf("a chat without max_tokens: %d tokens, want %d", r.Usage.Completion, want)
	}
}

func TestAnswersAre256TokensLongOnAverage(t *testing.T) {
	sum := 0
	const n = 20_000
	for i := range uint32(n) {
		end := newAnswer(1, []uint32{i}).end()
		if end < 1 {
			t.Fatalf("an answer of %d tokens", end)
		}
		sum += end
	}
	// Standard error 256/√20000 = 1.8; 5 of them.
	if mean := float64(sum) / n; mean < 247 || mean > 265 {
		t.Errorf("mean %v, want 256", mean)
	}
}

func TestCachedTokensAreReported(t *testing.T) {
	for _, on := range []bool{true, false} {
		o := testOptions()
		o.Sim.PrefixCaching = on
		s := serve(t, o)
		want := 0
		if on {
			want = 96
		}
		body := `{"prompt":` + ids(1, 100) + `,"max_tokens":2}`
		_, first := s.post("/v1/completions", body)
		_, second := s.post("/v1/completions", body)
		if first.Usage.Details.Cached != 0 || second.Usage.Details.Cached != want {
			t.Errorf("prefix caching %v: %d then %d tokens cached, want 0 then %d", on, first.Usage.Details.Cached, second.Usage.Details.Cached, want)
		}
		got := s.stream("/v1/completions", `{"prompt":`+ids(1, 100)+`,"max_tokens":2,"stream":true,"stream_options":{"include_usage":true}}`)
		if r := decode(t, got[len(got)-2]); r.Usage.Details.Cached != want {
			t.Errorf("prefix caching %v, streamed: %+v", on, r.Usage)
		}
	}
}

func TestWarmUpFillsTheCacheInNoTime(t *testing.T) {
	o := testOptions()
	o.Timer = stepTimer{promptToken: time.Hour}
	s := serve(t, o)
	// An hour per prompt token: only a warm-up can be answered at all.
	for range 2 {
		status, r := s.post("/v1/completions", `{"prompt":`+ids(1, 100)+`,"max_tokens":1}`, WarmUpHeader, "true")
		if status != http.StatusOK || r.Usage.Completion != 1 {
			t.Fatalf("status %d: %+v", status, r)
		}
	}
	if got := s.metric("vllm:prefix_cache_hits_total"); got != 96 {
		t.Errorf("%v tokens found in the cache, want 96", got)
	}
}

func TestRolesOverHTTP(t *testing.T) {
	for role, tokens := range map[engine.Role]int{engine.RoleAggregated: 5, engine.RolePrefill: 1, engine.RoleDecode: 5} {
		o := testOptions()
		o.Sim = sim.Config{Role: role, KVBlocks: 100}
		if role == engine.RoleDecode {
			o.Timer = stepTimer{promptToken: time.Hour} // nothing may be computed of a prompt
		}
		_, r := serve(t, o).post("/v1/completions", `{"prompt":"a b c","max_tokens":5,"ignore_eos":true}`)
		if r.Usage.Completion != tokens || *r.Choices[0].Finish != "length" || len(strings.Fields(*r.Choices[0].Text)) != tokens {
			t.Errorf("role %s: %+v, want %d tokens", role, r.Usage, tokens)
		}
	}
}

// The same core in virtual time says when tokens come: the server must agree.
func TestRealTimeFollowsVirtualTime(t *testing.T) {
	o := testOptions()
	o.Timer = stepTimer{step: 3 * time.Millisecond, promptToken: 20 * time.Microsecond}
	core, err := sim.New(o.Sim, o.Timer)
	if err != nil {
		t.Fatal(err)
	}
	if err := core.Add(sim.Request{ID: 1, PromptTokens: 2000, OutputTokens: 20}); err != nil {
		t.Fatal(err)
	}
	var want time.Duration
	for {
		step, ok := core.Begin()
		if !ok {
			break
		}
		want += step.Duration.Duration()
		core.End()
	}
	s := serve(t, o)
	best := time.Hour
	for run := range 10 { // a busy machine may delay a run, not all of them
		body := `{"prompt":` + ids(run*10_000, 2000) + `,"max_tokens":20,"ignore_eos":true}`
		start := time.Now()
		s.post("/v1/completions", body)
		took := time.Since(start)
		if took < want {
			t.Fatalf("run %d took %v, less than the engine's %v", run, took, want)
		}
		t.Logf("run %d: %v, %v more than in virtual time", run, took, took-want)
		if best = min(best, took); best-want < want/50 {
			return
		}
	}
	t.Errorf("the fastest of 10 runs took %v, want %v within 2 %%", best, want)
}
