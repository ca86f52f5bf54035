package load

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
)

func abs(n int) int { return max(n, -n) }

// tally counts the tokens of prompts by asking the server.
type tally struct {
	client *Client
	link   *link
	model  string
}

func (t tally) serial() uint64 {
	return mix(uniqueDomain, t.client.opt.Nonce) + t.client.fresh(1)
}

// calibrate finds a's cost and extra from prompts of three lengths that
// between them hold every word twice, and sets approx where they do not lie on
// one line. It fails when the server refuses a.
func (t tally) calibrate(ctx context.Context, a *alphabet) error {
	all := a.spread()
	few := len(all) / 4
	shuffled := append(slices.Clone(all), all...)
	slices.Reverse(shuffled)
	var n [3]int
	for i, symbols := range [][]int{all[:few], all, shuffled} {
		var err error
		if n[i], err = t.tokens(ctx, *a, symbols); err != nil {
			return err
		}
	}
	if n == [3]int{} { // the server counts nothing
		a.approx = !a.tokens()
		return nil
	}
	a.cost = max(1, (n[2]-n[1]+len(all)/2)/len(all))
	a.extra = max(0, n[1]-a.cost*len(all))
	a.approx = n[0] != a.length(few) || n[1] != a.length(len(all)) || n[2] != a.length(2*len(all)) ||
		a.tokens() && a.cost != 1
	return nil
}

// What even finds.
const (
	evenLeast = 8  // words are enough for prompts that differ
	evenMost  = 32 // are more than enough
	evenTimes = 8  // a word is repeated
)

// even is the largest set, up to evenMost, of words that each cost the server as many tokens; empty where it
// counts nothing. A vocabulary that is small, or of another language, cuts some words into
// more pieces than others.
func (t tally) even(ctx context.Context, a alphabet) (best []string) {
	byCost := map[int][]string{}
	for i, w := range a.words {
		n, err := t.tokens(ctx, a, slices.Repeat([]int{i}, evenTimes))
		if err != nil || n == 0 {
			return nil
		}
		if byCost[n] = append(byCost[n], w); len(byCost[n]) > len(best) {
			best = byCost[n]
		}
		if len(best) == evenMost {
			break
		}
	}
	return best
}

// spread is every word once, or ids over the whole range, both ends included.
func (a alphabet) spread() []int {
	n := min(a.size(), 64)
	out := make([]int, n)
	for i := range out {
		out[i] = i * (a.size() - 1) / (n - 1)
	}
	return out
}

// tokens asks for one token after the prompt and gives the server's count of
// the prompt; 0 where it does not say. It asks again if the server fails.
func (t tally) tokens(ctx context.Context, a alphabet, symbols []int) (int, error) {
	n, err := t.ask(ctx, a, symbols)
	if errors.Is(err, ErrOwn) {
		return t.ask(ctx, a, symbols)
	}
	return n, err
}

func (t tally) ask(ctx context.Context, a alphabet, symbols []int) (int, error) {
	q := ask{endpoint: t.client.opt.Endpoint, model: t.model, alphabet: a, osl: 1}
	resp, _, err := t.link.send(ctx, q.body(symbols))
	if err != nil {
		return 0, t.client.unreachable(err)
	}
	defer func() { _ = resp.Body.Close() }() // it was read, or its error is told
	got, err := t.client.read(resp)
	if err != nil {
		return 0, err
	}
	if err := t.client.accepted(got); err != nil {
		return 0, err
	}
	var v struct {
		Choices json.RawMessage `json:"choices"`
		Usage   struct {
			PromptTokens int `json:"prompt_tokens"`
		} `json:"usage"`
	}
	if err := json.Unmarshal(got.body, &v); err != nil || v.Choices == nil {
		return 0, fmt.Errorf("%w: it answers a completion with %s", ErrNotLLM, got.excerpt)
	}
	return v.Usage.PromptTokens, nil
}
