package simserver

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"plimsoll/engine"
)

// prefillAsk is what a router asks a prefill engine for.
const prefillAsk = `,"max_tokens":1,"kv_transfer_params":{"do_remote_decode":true,"do_remote_prefill":false,"remote_engine_id":null}}`

func withRole(role engine.Role) Options {
	o := testOptions()
	o.Sim.Role, o.Sim.PrefixCaching, o.Sim.Seed = role, false, 7
	return o
}

// What a prefill engine gives and a decode engine goes on with is what one
// aggregated engine says, under one id, with one usage.
func TestHandoverGivesTheAggregatedAnswer(t *testing.T) {
	whole, prefill, decoder := serve(t, withRole(engine.RoleAggregated)), serve(t, withRole(engine.RolePrefill)), serve(t, withRole(engine.RoleDecode))
	const prompt, rest = `{"prompt":"one two three","ignore_eos":true`, `,"max_tokens":9`
	_, want := whole.post("/v1/completions", prompt+rest+"}")

	status, first := prefill.post("/v1/completions", prompt+prefillAsk, "X-Request-Id", "r1")
	if status != http.StatusOK || first.ID != "cmpl-r1" || first.Transfer == nil || first.Transfer.ProducedTokens != 1 || !first.Transfer.DoRemotePrefill || first.Transfer.DoRemoteDecode {
		t.Fatalf("status %d, %+v", status, first)
	}
	handed := fmt.Sprintf(`,"kv_transfer_params":{"do_remote_prefill":true,"produced_tokens":1,"created":%d}`, first.Transfer.Created)
	_, last := decoder.post("/v1/completions", prompt+rest+handed+"}", "X-Request-Id", "r1")
	if got := *first.Choices[0].Text + *last.Choices[0].Text; got != *want.Choices[0].Text {
		t.Errorf("text %q, want %q", got, *want.Choices[0].Text)
	}
	if *last.Usage != *want.Usage || last.ID != first.ID || *last.Choices[0].Finish != "length" {
		t.Errorf("the decode engine's %+v, usage %+v, want %+v", last, last.Usage, want.Usage)
	}
	text, created := "", fmt.Sprintf(`"created":%d,`, first.Transfer.Created)
	all := decoder.stream("/v1/completions", prompt+rest+handed+`,"stream":true,"stream_options":{"include_usage":true}}`)
	for _, data := range all[:len(all)-1] {
		if !strings.Contains(data, created) {
			t.Errorf("%s lacks %s", data, created)
		}
		if r := decode(t, data); r.Usage == nil {
			text += *r.Choices[0].Text
		} else if r.Usage.Completion != 9 || r.Usage.Prompt != 3 {
			t.Errorf("usage %+v", r.Usage)
		}
	}
	if got := *first.Choices[0].Text + text; got != *want.Choices[0].Text {
		t.Errorf("streamed text %q, want %q", got, *want.Choices[0].Text)
	}
}

// A chat's role comes once, from the engine with the first token.
func TestHandoverSaysTheRoleOnce(t *testing.T) {
	s := serve(t, withRole(engine.RoleDecode))
	const body = `{"messages":[{"role":"user","content":"a"}],"max_tokens":3,"ignore_eos":true,"stream":true`
	if got := s.stream("/v1/chat/completions", body+`,"kv_transfer_params":{"do_remote_prefill":true,"produced_tokens":1}}`); len(got) != 3 {
		t.Errorf("%d events, want two tokens and the end: %q", len(got), got)
	}
	if got := s.stream("/v1/chat/completions", body+`}`); len(got) != 5 {
		t.Errorf("%d events, want the role, three tokens and the end: %q", len(got), got)
	}
}

// An answer of one token ends at the prefill engine, so that nothing follows it.
func TestHandoverEndsWhereTheAnswerEnds(t *testing.T) {
	o := withRole(engine.RolePrefill)
	s := serve(t, o)
	ended, lengths := 0, 0
	for i := range 2000 {
		prompt := fmt.Sprintf("word%d", i)
		if newAnswer(o.Sim.Seed, []uint32{wordToken(prompt)}).end() != 1 && i > 3 {
			continue
		}
		_, r := s.post("/v1/completions", `{"prompt":"`+prompt+`"`+prefillAsk)
		switch *r.Choices[0].Finish {
		case "stop":
			ended++
		case "length":
			lengths++
		}
	}
	if ended == 0 || lengths == 0 {
		t.Errorf("%d answers ended at their first token, %d go on", ended, lengths)
	}
}

// The prompt costs a decode engine nothing.
func TestHandedOverPromptIsNotComputed(t *testing.T) {
	o := withRole(engine.RoleDecode)
	o.Timer = stepTimer{step: time.Millisecond, promptToken: time.Hour}
	s := serve(t, o)
	if status, r := s.post("/v1/completions", `{"prompt":"a b c d","max_tokens":3,"ignore_eos":true,"kv_transfer_params":{"do_remote_prefill":true,"produced_tokens":1}}`); status != http.StatusOK || r.Usage.Completion != 3 {
		t.Errorf("status %d, %+v", status, r)
	}
}

func TestBadHandover(t *testing.T) {
	s := serve(t, withRole(engine.RoleDecode))
	for body, want := range map[string]string{
		`"stream":true,"kv_transfer_params":{"do_remote_decode":true}`:                                    "do_remote_decode",
		`"kv_transfer_params":{"produced_tokens":1}`:                                                      "do_remote_prefill",
		`"kv_transfer_params":{"do_remote_prefill":true,"produced_tokens":-1}`:                            "produced_tokens is -1",
		`"max_tokens":3,"kv_transfer_params":{"do_remote_prefill":true,"produced_tokens":3}`:              "less than max_tokens",
		`"max_tokens":null,"kv_transfer_params":{"do_remote_prefill":true,"produced_tokens":99999999999}`: "at most",
		`"kv_transfer_params":[1]`: "not a valid request",
	} {
		if status, r := s.post("/v1/completions", `{"prompt":"a",`+body+`}`); status != http.StatusBadRequest || !strings.Contains(r.Error.Message, want) {
			t.Errorf("%s: status %d, %+v, want %q", body, status, r.Error, want)
		}
	}
}
