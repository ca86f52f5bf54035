package main

import (
	"bytes"
	"fmt"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"plimsoll/engine/latency"
	"plimsoll/profile"
)

// unmetError says why an engine breaks an SLO with one request that has it to
// itself: no number of engines mends that.
type unmetError struct {
	Why        string             `json:"infeasible"`
	Provenance profile.Provenance `json:"provenance"`
}

func (e *unmetError) Error() string { return e.Why }

// breaksAlone is an engine with one request; nil = it holds the SLO.
func (o capacityOptions) breaksAlone(l latency.Model, on string) *unmetError {
	step := l.ITL(1, o.workload.AvgISL+o.workload.AvgOSL/2).Seconds()
	if step > o.slo.ITLP99.Seconds() {
		return tooSlow(step, on, o.slo.ITLP99, profile.Estimated)
	}
	// A prefix may be in the cache; the ratio promises no TTFT.
	isl := max(1, int(o.workload.P99ISL)-o.workload.Prefixes.Tokens)
	if ttft := l.TTFT(isl, 0); o.slo.TTFTP99 > 0 && ttft > o.slo.TTFTP99 {
		return &unmetError{fmt.Sprintf("a prompt of %d tokens alone takes %.4g ms on %s: above %.4g ms", isl, ttft.Seconds()*1e3, on, o.slo.TTFTP99.Seconds()*1e3), profile.Estimated}
	}
	return nil
}

// tooSlow is an engine whose steps of so many seconds with one sequence break
// the ITL.
func tooSlow(step float64, on string, itl time.Duration, p profile.Provenance) *unmetError {
	return &unmetError{fmt.Sprintf("decoding alone takes %.4g ms a token on %s: above %.4g ms", step*1e3, on, itl.Seconds()*1e3), p}
}

// showUnmet prints why nothing meets the SLO, and ends so.
func showUnmet(c *cli.Context, u *unmetError) error {
	if c.String("format") == "json" {
		if err := printJSON(c.App.Writer, u); err != nil {
			return err
		}
		return &infeasibleError{u.Why}
	}
	var b bytes.Buffer
	if u.Provenance != profile.Measured {
		fmt.Fprintf(&b, "%s — not measured on a GPU\n", strings.ToUpper(u.Provenance.String()))
	}
	fmt.Fprintf(&b, "infeasible: %s\n", u.Why)
	if err := show(c, b); err != nil {
		return err
	}
	return &infeasibleError{u.Why}
}
