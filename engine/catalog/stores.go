package catalog

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"plimsoll/engine"
)

// rule says how the matrices that it names are stored. Checkpoints name them in full,
// by what holds them, by a part of that ("self_attn", "mlp.gate"), by a glob, or by a
// regular expression after "re:".
type rule struct {
	literal         map[string]bool // runs of components
	globs, patterns []*regexp.Regexp
	as              scheme
}

// outer is what a layer's name may begin with, by who wrote the checkpoint.
var outer = regexp.MustCompile(`^(?:(?:model|language_model|text_model|backbone|llm)\.)+`)

// numbered is one of a layer's experts, all of which are stored as the first.
var numbered = regexp.MustCompile(`\bexperts\.\d+\b`)

// prefixes are those that regular expressions are tried with.
var prefixes = []string{"", "model.", "model.language_model.", "language_model.model.", "language_model.", "backbone."}

func newRule(entries []string, as scheme) (rule, error) {
	r := rule{literal: map[string]bool{}, as: as}
	for _, e := range entries {
		pattern, is := strings.CutPrefix(e, "re:")
		if e = strings.Trim(strings.TrimRight(outer.ReplaceAllString(e, ""), "*"), "."); !is {
			if !strings.ContainsAny(e, "*?[") {
				r.literal[numbered.ReplaceAllString(e, "experts.0")] = true
				continue
			}
			pattern = strings.NewReplacer(`\*`, ".*", `\?`, ".", `\[`, "[", `\]`, "]").Replace(regexp.QuoteMeta(e)) + `(?:\..*)?$`
		}
		re, err := regexp.Compile("^(?:" + pattern + ")")
		if err != nil {
			return r, fmt.Errorf("%s: %w", e, err)
		}
		if is {
			r.patterns = append(r.patterns, re)
		} else {
			r.globs = append(r.globs, re)
		}
	}
	return r, nil
}

// names reports whether r is about the matrix of that name.
func (r rule) names(name string) bool {
	for from := 0; len(r.literal) > 0 && from < len(name); from++ {
		for to := from + 1; (from == 0 || name[from-1] == '.') && to <= len(name); to++ {
			if (to == len(name) || name[to] == '.') && r.literal[name[from:to]] {
				return true
			}
		}
	}
	return slices.ContainsFunc(r.globs, func(re *regexp.Regexp) bool { return re.MatchString(name) }) || slices.ContainsFunc(r.patterns, func(re *regexp.Regexp) bool {
		return slices.ContainsFunc(prefixes, func(p string) bool { return re.MatchString(p + name) })
	})
}

// tally is how many weights are stored in which way, and the bytes of all.
type tally struct {
	bytes float64
	by    map[scheme]int64
}

// mostly is how most of the weights are stored.
func (t tally) mostly() (most scheme) {
	for as, n := range t.by {
		if n > t.by[most] || n == t.by[most] && as.bits > most.bits {
			most = as
		}
	}
	return most
}

// tally counts n times a layer's matrices, in all of to.
func (s *stores) tally(layer int, theirs *strings.Replacer, n int, ms []matrix, to ...*tally) {
	for _, w := range ms {
		var names []string
		for name := range strings.FieldsSeq(w.names) {
			name = fmt.Sprintf("layers.%d.%s", layer, name)
			names = append(names, name, theirs.Replace(name))
		}
		as := s.of(names, s.rest)
		for _, t := range to {
			t.bytes += float64(n) * as.bytes([]matrix{w})
			t.by[as] += int64(n) * params([]matrix{w})
		}
	}
}

// store fills in how m's weights are stored, layer by layer.
func (c hfConfig) store(f hfFamily, m *Model, s *stores) {
	var all, attention, ffn, experts tally
	for _, t := range []*tally{&all, &attention, &ffn, &experts} {
		t.by = map[scheme]int64{}
	}
	theirs := strings.NewReplacer(f.names...)
	for i := range m.Layers {
		mixer, feed := c.kinds(*m, i)
		switch mixer {
		case 'M':
			s.tally(i, theirs, 1, m.linear(), &all, &attention)
		case '*':
			s.tally(i, theirs, 1, m.attention(), &all, &attention)
			if m.IndexLayers > 0 && (c.IndexTypes == nil || c.IndexTypes[i] == "full") {
				s.tally(i, theirs, 1, m.indexer(), &all, &attention)
			}
		}
		switch feed {
		case '-':
			s.tally(i, theirs, 1, m.dense(), &all, &ffn)
		case 'E':
			s.tally(i, theirs, 1, m.shared(), &all, &ffn)
			s.tally(i, theirs, m.Experts, m.expert(), &all, &ffn, &experts)
		}
	}
	p, most, vocabulary := m.parts(), all.mostly(), []matrix{{"", m.Hidden, m.Vocab}}
	all.bytes += 2*float64(p.norms+p.routers) + s.of([]string{"embed_tokens"}, plain).bytes(vocabulary)
	if !m.TiedEmbeddings {
		all.bytes += s.of([]string{"lm_head"}, s.head).bytes(vocabulary)
	}
	if m.Weights = most.as; m.Weights != engine.MXFP4 && most.scale > 0 && most.cols > 0 { // engines pad MXFP4
		m.QuantBlock = max(most.rows, most.cols)
	}
	m.Stored = Stored{int64(all.bytes), int64(experts.bytes), attention.mostly().as, ffn.mostly().as}
}

// kinds are a layer's mixer, * attention or M linear, and its feed-forward part, - dense
// or E with experts; 0 where it has none.
func (c hfConfig) kinds(m Model, layer int) (mixer, feed byte) {
	letters := c.hybrid()
	if m.FeedForwardLayers > 0 { // a layer is one thing
		if l := letters[layer]; l == '-' || l == 'E' {
			return 0, l
		}
		return letters[layer], 0
	}
	mixer, feed = '*', '-'
	if m.LinearLayers > 0 && (letters != "" && letters[layer] == 'M' || letters == "" && (layer+1)%max(1, value(cmp.Or(c.FullInterval, new(4)))) != 0) {
		mixer = 'M'
	}
	if m.MoE() && !c.dense(layer) {
		feed = 'E'
	}
	return mixer, feed
}
