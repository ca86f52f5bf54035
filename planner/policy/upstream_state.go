package policy

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
)

// upstreamState is what Save writes.
type upstreamState struct {
	Policy      string            `json:"policy"`
	Corrections correctionFactors `json:"corrections"`
	Requests    json.RawMessage   `json:"requests"`
	ISL         json.RawMessage   `json:"isl"`
	OSL         json.RawMessage   `json:"osl"`
}

const upstreamName = "upstream"

// Save gives the corrections and what the forecasters remember.
func (u *Upstream) Save() (json.RawMessage, error) {
	s := upstreamState{Policy: upstreamName, Corrections: u.by}
	var errs [3]error
	s.Requests, errs[0] = u.o.Requests.Save()
	s.ISL, errs[1] = u.o.ISL.Save()
	s.OSL, errs[2] = u.o.OSL.Save()
	if err := errors.Join(errs[:]...); err != nil {
		return nil, fmt.Errorf("saving the forecasters: %w", err)
	}
	return json.Marshal(s)
}

// Restore takes back what Save gave; after an error the policy is as it was.
func (u *Upstream) Restore(b json.RawMessage) error {
	var s upstreamState
	if err := restored(b, &s, &s.Policy, upstreamName); err != nil {
		return err
	}
	if c := s.Corrections; !usableFactor(c.Prefill) || !usableFactor(c.Decode) {
		return fmt.Errorf("its corrections are %v and %v: want numbers of at least 0", c.Prefill, c.Decode)
	}
	before, err := u.Save()
	if err != nil {
		return err
	}
	if err := u.restoreForecasters(s); err != nil {
		var was upstreamState
		return errors.Join(err, json.Unmarshal(before, &was), u.restoreForecasters(was))
	}
	if !u.o.NoCorrection {
		u.by = s.Corrections
	}
	return nil
}

func (u *Upstream) restoreForecasters(s upstreamState) error {
	return errors.Join(u.o.Requests.Restore(s.Requests), u.o.ISL.Restore(s.ISL), u.o.OSL.Restore(s.OSL))
}

func usableFactor(x float64) bool { return x >= 0 && !math.IsInf(x, 1) }
