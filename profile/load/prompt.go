package load

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"

	"plimsoll/profile"
)

// alphabet is what prompts are written in: token ids from lo up, or words.
// Each symbol costs the server cost tokens, and the whole prompt extra more
// (a first token, a chat template).
type alphabet struct {
	ids    int // how many ids from lo up; 0: words are used
	lo     int
	words  []string
	cost   int
	extra  int
	approx bool // cost and extra are not exact for every prompt
}

func (a alphabet) tokens() bool { return a.ids > 0 }

func (a alphabet) size() int {
	if a.tokens() {
		return a.ids
	}
	return len(a.words)
}

// symbols is how many symbols make a prompt of isl tokens, or the nearest to
// it; below 1 where there is none.
func (a alphabet) symbols(isl int) int {
	return int(math.Round(float64(isl-a.extra) / float64(a.cost)))
}

// length is the tokens of a prompt of so many symbols.
func (a alphabet) length(symbols int) int { return symbols*a.cost + a.extra }

// slack is by how many tokens a prompt may miss its length before it counts
// as wrong: none for ids; words are judged by a tokenizer that the client does
// not have, so 2 %, and 4 tokens for short prompts; 10 % and 8 tokens where words
// cost more tokens or fewer.
func (a alphabet) slack(isl int) int {
	switch {
	case a.tokens():
		return 0
	case a.approx:
		return max(8, isl/10)
	}
	return max(4, isl/50)
}

// common are words that are one token each, with their space, in the usual
// vocabularies of English text.
var common = strings.Fields(`
	time year people way day man thing woman life child world school state family student group
	country problem hand part place case week company system program question work government
	number night point home water room mother area money story fact month lot right study book
	eye job word business issue side kind head house service friend father power hour game line
	end member law car city`)

// letters are one token each even in small vocabularies.
var letters = strings.Fields("b d f g k l m n p r s t v z")

// Domains keep the random numbers of different uses apart.
const (
	sharedDomain = 0x736861726564
	uniqueDomain = 0x756e69717565
)

// mix hashes words into one (splitmix64's finaliser, Steele et al., OOPSLA 2014).
func mix(words ...uint64) uint64 {
	var h uint64
	for _, w := range words {
		h += w + 0x9e3779b97f4a7c15
		h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
		h = (h ^ h>>27) * 0x94d049bb133111eb
		h ^= h >> 31
	}
	return h
}

// sequence is n symbols out of size: the digits of serial, lowest first, then
// random ones. So prompts of different serials differ from the first block of
// tokens on, neighbours from the first token on.
func sequence(size, n int, serial uint64) []int {
	out := make([]int, n)
	rng := rand.New(rand.NewPCG(serial, uint64(size)))
	rest, digits := serial, uint64(math.MaxUint64)
	base := uint64(size)
	for i := range out {
		if digits == 0 {
			out[i] = rng.IntN(size)
			continue
		}
		out[i] = int(rest % base)
		rest /= base
		if digits /= base; base == 1 {
			digits = 0
		}
	}
	return out
}

// serials gives the number that decides the prompt of request i. Unshared
// prompts are new in each call; of shared ones a longer one begins with a shorter.
func (c *Client) serials(w profile.Workload) func(i int) uint64 {
	if w.SharedPrompts {
		first := mix(sharedDomain, w.Seed)
		return func(i int) uint64 { return first + uint64(i) }
	}
	first := mix(uniqueDomain, c.opt.Nonce, w.Seed, uint64(w.ISL)) + c.fresh(w.Requests)
	return func(i int) uint64 { return first + uint64(i) }
}

// fresh reserves n numbers that no other call has.
func (c *Client) fresh(n int) uint64 { return c.calls.Add(uint64(n)) - uint64(n) }

// ask is one request body in the making.
type ask struct {
	endpoint Endpoint
	model    string
	alphabet alphabet
	osl      int
	stream   bool
	live     bool // token counts with each chunk, as vLLM gives them
}

// body writes the request with a prompt of symbols.
func (a ask) body(symbols []int) []byte {
	return a.around(7*len(symbols), func(b []byte) []byte { return a.alphabet.appendPrompt(b, symbols) })
}

// textBody writes the request with a text as its prompt.
func (a ask) textBody(text string) []byte {
	return a.around(len(text), func(b []byte) []byte { return appendJSON(b, text) })
}

// around writes the request, its prompt by put, of about size bytes. It asks for
// exactly osl tokens: the fields that say so are vLLM's and are ignored where
// unknown.
func (a ask) around(size int, put func([]byte) []byte) []byte {
	b := make([]byte, 0, 256+len(a.model)+size)
	b = append(b, `{"model":`...)
	b = appendJSON(b, a.model)
	if a.endpoint == Chat {
		b = append(b, `,"messages":[{"role":"user","content":`...)
		b = put(b)
		b = append(b, `}]`...)
	} else {
		b = append(b, `,"prompt":`...)
		b = put(b)
	}
	b = append(b, `,"max_tokens":`...)
	b = strconv.AppendInt(b, int64(a.osl), 10)
	b = append(b, `,"min_tokens":`...)
	b = strconv.AppendInt(b, int64(a.osl), 10)
	b = append(b, `,"ignore_eos":true,"temperature":0`...)
	switch {
	case a.live:
		return append(b, `,"stream":true,"stream_options":{"include_usage":true,"continuous_usage_stats":true}}`...)
	case a.stream:
		return append(b, `,"stream":true,"stream_options":{"include_usage":true}}`...)
	default:
		return append(b, `,"stream":false}`...)
	}
}

// appendPrompt writes the prompt as JSON: a list of ids, or a text.
func (a alphabet) appendPrompt(b []byte, symbols []int) []byte {
	if a.tokens() {
		b = append(b, '[')
		for i, s := range symbols {
			if i > 0 {
				b = append(b, ',')
			}
			b = strconv.AppendInt(b, int64(a.lo+s), 10)
		}
		return append(b, ']')
	}
	// A fixed first letter, so that every symbol has a space before it also
	// where a chat template trims: with and without are different tokens.
	b = append(b, `"b`...)
	for _, s := range symbols {
		b = append(append(b, ' '), a.words[s]...)
	}
	return append(b, '"')
}

func appendJSON(b []byte, s string) []byte {
	q, _ := json.Marshal(s) // a string always marshals
	return append(b, q...)
}
