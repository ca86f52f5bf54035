package simserver

import (
	"math"
	"strings"

	"plimsoll/engine/sim"
)

// meanAnswer is how long an answer is on average, in tokens, where the client
// leaves its end to the model. The lengths are geometric: each token is the
// last one with the same probability.
const meanAnswer = 256

// Made-up words have two syllables, each a consonant and a vowel.
const (
	consonants = "bdfgklmnprstvwzj"
	vowels     = "aeio"
	syllables  = uint64(len(consonants) * len(vowels))
)

// appendTokens tokenises text: one token for each word between white space.
func appendTokens(tokens []uint32, text string) []uint32 {
	for w := range strings.FieldsSeq(text) {
		tokens = append(tokens, wordToken(w))
	}
	return tokens
}

// wordToken is the id of a word: its FNV-1a hash.
func wordToken(w string) uint32 {
	h := uint32(2166136261)
	for i := range len(w) {
		h = (h ^ uint32(w[i])) * 16777619
	}
	return h
}

// answer is the text that follows a prompt: the same for the same seed.
type answer uint64

func newAnswer(seed uint64, prompt []uint32) answer {
	return answer(mix(seed ^ sim.BlockHashes(prompt, len(prompt))[0]))
}

// appendWord appends the i-th word, with a space before it.
func (a answer) appendWord(b []byte, i int) []byte {
	x := mix(uint64(a) + uint64(i) + 1)
	b = append(b, ' ')
	b = appendSyllable(b, x%syllables)
	return appendSyllable(b, (x>>32)%syllables)
}

func appendSyllable(b []byte, n uint64) []byte {
	return append(b, consonants[n/uint64(len(vowels))], vowels[n%uint64(len(vowels))])
}

// end is how many tokens the model would say of its own accord, at least 1.
func (a answer) end() int {
	u := (float64(mix(uint64(a))>>11) + 0.5) / (1 << 53) // in (0, 1)
	return 1 + int(math.Log(u)/math.Log1p(-1.0/meanAnswer))
}

// mix is a bijection that scatters its argument (the finaliser of splitmix64,
// Steele, Lea and Flood 2014).
func mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
