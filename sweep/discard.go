package sweep

import (
	"fmt"
	"strings"

	"plimsoll/profile"
)

// Load that says nothing of its engine is sent again, and what counts has the
// point's id. The others are kept beside it, each under that id and its attempt,
// with why it does not count: but for warm-ups, nothing that an engine did is in no file.

// discard keeps what is sent again for the point that is measured.
func (r *runner) discard(s *trial, p profile.Point, rs []profile.Request, why string) error {
	r.sign(s, &p, s.stage, s.id)
	p.Discarded = why
	return r.book.discard(s, p, rs)
}

// sign says of which engine, and for what, a point is.
func (r *runner) sign(s *trial, p *profile.Point, stage profile.Stage, id string) {
	p.ID, p.Stage, p.Phase, p.Config, p.Provenance = id, stage, s.phase, s.cfg, s.facts.Provenance
	p.MaxKV, p.WindowedKV, p.MaxSeqs, p.Cap = s.facts.KVTokens, s.facts.WindowedKV, s.facts.MaxNumSeqs, r.opts.MaxInFlight
	if p.ModelError = s.facts.ITLError; s.phase == profile.Prefill {
		p.ModelError = s.facts.TTFTError
	}
}

// discard records a load that does not count.
func (l *ledger) discard(s *trial, p profile.Point, rs []profile.Request) error {
	attempt := 1
	for _, q := range l.allDiscarded() {
		if strings.HasPrefix(q.ID, p.ID+"/attempt") {
			attempt++
		}
	}
	p.ID = fmt.Sprintf("%s/attempt%d", p.ID, attempt)
	if err := l.rec.Point(p, rs, l.spent()); err != nil {
		return fmt.Errorf("keeping discarded point %s: %w", p.ID, err)
	}
	s.account.discarded = append(s.account.discarded, p)
	return nil
}

// allDiscarded are those of an earlier run, and of the trials in their order.
func (l *ledger) allDiscarded() []profile.Point {
	out := l.known.discarded()
	for _, s := range l.trials {
		out = append(out, s.account.discarded...)
	}
	return out
}

// discarded are the points of an earlier run that do not count.
func (k Known) discarded() (ps []profile.Point) {
	for _, p := range k.Points {
		if p.Discarded != "" {
			ps = append(ps, p)
		}
	}
	return ps
}
