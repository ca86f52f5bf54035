package main

import (
	"fmt"
	"time"

	"github.com/urfave/cli/v2"

	"plimsoll/profile"
)

// unmetError says why an engine breaks an SLO with one request that has it to
// itself: no number of engines mends that.
type unmetError struct {
	Why        string             `json:"infeasible"`
	Provenance profile.Provenance `json:"provenance"`
}

func (e *unmetError) Error() string { return e.Why }

// tooSlow is an engine whose steps of so many seconds with one sequence break
// the ITL.
func tooSlow(step float64, on string, itl time.Duration, p profile.Provenance) *unmetError {
	return &unmetError{fmt.Sprintf("decoding alone takes %.4g ms a token on %s (limit %.4g ms)", step*1e3, on, itl.Seconds()*1e3), p}
}

// showUnmet prints why nothing meets the SLO, and ends so.
func showUnmet(c *cli.Context, u *unmetError) error {
	said := card{head: []string{marked(u.Provenance)}, facts: []detail{{"SLO", "no number of engines holds it: " + u.Why}}}
	if err := showCard(c, u, func() card { return said }, func() string { return "" }); err != nil {
		return err
	}
	return &infeasibleError{u.Why}
}
