package simserver

import (
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

// A prefill engine answers with what a decode engine is to be told, and that gives
// what one aggregated engine would, from the first token on.
func TestHandoverGivesTheAggregatedAnswer(t *testing.T) {
	whole, prefill, decoder := serve(t, withRole(engine.RoleAggregated)), serve(t, withRole(engine.RolePrefill)), serve(t, withRole(engine.RoleDecode))
	const prompt, rest = `{"prompt":"one two three","ignore_eos":true`, `,"max_tokens":9`
	_, want := whole.post("/v1/completions", prompt+rest+"}")

	status, first := prefill.post("/v1/completions", prompt+prefillAsk, "X-Request-Id", "r1")
	if status != http.StatusOK || first.Usage.Completion != 1 || first.Transfer == nil || *first.Transfer != (transfer{DoRemotePrefill: true}) {
		t.Fatalf("status %d, %+v", status, first)
	}
	_, last := decoder.post("/v1/completions", prompt+rest+`,"kv_transfer_params":{"do_remote_prefill":true,"remote_block_ids":[1]}}`, "X-Request-Id", "r1")
	if *last.Choices[0].Text != *want.Choices[0].Text || *last.Usage != *want.Usage || *last.Choices[0].Finish != "length" || last.ID != first.ID || last.Transfer != nil {
		t.Errorf("the decode engine's %+v, usage %+v, want %+v, %+v", last, last.Usage, want, want.Usage)
	}
}

// The prompt costs a decode engine nothing.
func TestHandedOverPromptIsNotComputed(t *testing.T) {
	o := withRole(engine.RoleDecode)
	o.Timer = stepTimer{step: time.Millisecond, promptToken: time.Hour}
	s := serve(t, o)
	if status, r := s.post("/v1/completions", `{"prompt":"a b c d","max_tokens":3,"ignore_eos":true,"kv_transfer_params":{"do_remote_prefill":true}}`); status != http.StatusOK || r.Usage.Completion != 3 {
		t.Errorf("status %d, %+v", status, r)
	}
}

func TestBadHandover(t *testing.T) {
	s := serve(t, withRole(engine.RoleDecode))
	for body, want := range map[string]string{
		`"stream":true,"kv_transfer_params":{"do_remote_decode":true}`: "do_remote_decode",
		`"kv_transfer_params":[1]`:                                     "not a valid request",
	} {
		if status, r := s.post("/v1/completions", `{"prompt":"a",`+body+`}`); status != http.StatusBadRequest || !strings.Contains(r.Error.Message, want) {
			t.Errorf("%s: status %d, %+v, want %q", body, status, r.Error, want)
		}
	}
}
