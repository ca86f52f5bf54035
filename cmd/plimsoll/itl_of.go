package main

import (
	"github.com/urfave/cli/v2"

	"plimsoll/engine/field"
	"plimsoll/profile"
)

// itlOfFlags are what a percentile of ITL is taken over, and the flag that said so before.
func itlOfFlags(category, def string) []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "itl-of", Category: category, Usage: "what a percentile of ITL is taken over: `request|gap`: each request's mean over its output tokens, also called TPOT, or each gap between two tokens (default: " + def + ")"},
		&cli.BoolFlag{Name: "itl-per-request", Hidden: true},
	}
}

// itlOf reads itlOfFlags; fallback is what holds where they say nothing.
func (p *parser) itlOf(stat profile.Statistic, fallback profile.ITLOf) profile.ITLOf {
	if p.c.IsSet("itl-per-request") {
		p.fail(field.Errorf("--itl-per-request is no flag any more").Hint("--itl-of request says the same, and is the default; --itl-of gap judges single gaps"))
	}
	if !p.c.IsSet("itl-of") {
		return fallback
	}
	of := profile.ITLOf(p.choice("itl-of", string(profile.OfRequest), string(profile.OfGap)))
	if of == profile.OfGap && stat.Quantile() == 0 {
		p.fail(field.Errorf("--itl-of gap goes with a percentile: the mean is that of requests").Hint("for example --sla-stat p99"))
	}
	return of
}
