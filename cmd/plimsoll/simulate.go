package main

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/urfave/cli/v2"

	"plimsoll/engine"
	"plimsoll/engine/field"
	"plimsoll/engine/sim/build"
	"plimsoll/engine/sim/fleet"
	"plimsoll/profile"
	"plimsoll/profile/trace"
)

func engineSimulateCommand() *cli.Command {
	return &cli.Command{
		Name: "simulate", Usage: "run a load through a fleet of simulated engines in virtual time",
		Description: "Gives attainment of an SLA, goodput, percentiles, utilisation and queues, in seconds for millions of\n" +
			"requests. Step times come from the latency model (--model, --gpu, --tp), or from a profile (--profile).\n\n" +
			"   plimsoll engine simulate --model llama-3.1-8b --gpu h100-sxm --replicas 4 --rate 20 --isl 1024 --osl 256 --ttft 200 --itl 20\n" +
			"   plimsoll engine simulate --profile profiling_results --prefill-replicas 2 --decode-replicas 3 --trace azure.csv --plot fleet.png\n\n" +
			"A trace in plain CSV has a header. It names when each request comes: arrival_s, arrival_ms or timestamp (a date\n" +
			"and time, or a number), or interval_s or interval_ms since the row before; its prompt tokens: isl, input_tokens or\n" +
			"prompt_tokens; and its output tokens: osl, output_tokens or completion_tokens. Other columns are passed over.",
		Flags:  append(append(append(fleetFlags(), loadFlags()...), simulateFlags()...), detailsFlag()),
		Action: simulateFleet,
	}
}

func simulateFlags() []cli.Flag {
	return stringFlags("judgement", [][3]string{
		{"ttft", "", "SLA: time to first token of each request, `ms` (default: none, or the profile's)"},
		{"itl", "", "SLA: inter-token latency, each request's mean over its output tokens, `ms` (default: none, or the profile's)"},
		{"seed", "1", "seed of arrivals, lengths, prefixes and jitter, `N`"},
		{"plot", "", "also draw the run over time into `FILE`, .png or .svg"},
	})
}

func simulateFleet(c *cli.Context) error {
	p := &parser{c: c}
	plan := parseFleet(p)
	arrivals := parseLoad(p, plan.Seed)
	plot := p.writable("plot")
	if p.err != nil {
		return p.err
	}
	say, done := progressLine(c)
	s, err := runFleet(plan, arrivals, func(requests int, at time.Duration) { // of how many is often not known: a trace is read as it goes
		say(fmt.Sprintf("%s, %v of virtual time", engine.Count(requests, "request"), at.Round(time.Second)))
	})
	done()
	if err != nil {
		return err
	}
	if err := showCard(c, s.file(), s.card, s.detailed); err != nil {
		return err
	}
	if err := writePicture(plot, s.picture); err != nil {
		return err
	}
	if r := s.report; r.Rejected == r.Offered {
		return field.WithHint(fmt.Errorf("no request was served: all %d were too long for an engine", r.Offered), "shorter prompts and answers, or a larger --max-model-len")
	}
	return nil
}

// simulation is one run: what ran, under what, and what came of it.
type simulation struct {
	fleet    build.Fleet
	load     simulatedLoad
	report   fleet.Report
	batches  fleet.Batches
	warnings []profile.Warning
}

// simulatedLoad is a load as it came.
type simulatedLoad struct {
	words        string
	asked        float64 // requests per second; 0 = nobody asked
	speed, scale float64 // of a trace; 1 otherwise
	trace        *traceFacts
	// steady says that the rate is the same throughout, so that batches vary by chance alone
	// and have intervals. A trace is what it is, and of a rate that changes they would take
	// the change for chance.
	steady bool
	offered
}

// progress hears now and then how many requests have come, and when the last did.
type progress func(requests int, at time.Duration)

func runFleet(plan build.Options, arrivals arrivals, seen progress) (simulation, error) {
	f, err := plan.Build()
	if err != nil {
		return simulation{}, err
	}
	load, err := arrivals.open(f.BlockSize)
	if err != nil {
		return simulation{}, err
	}
	defer load.close()
	engines, err := fleet.New(f.Config)
	if err != nil {
		return simulation{}, field.Errorf("%v", err)
	}
	got, batches, err := feed(engines, load.trace, seen)
	if err != nil {
		return simulation{}, err
	}
	s := simulation{
		fleet: f, report: engines.Report(), batches: batches,
		load: simulatedLoad{words: load.words, asked: load.asked, speed: arrivals.speed, scale: arrivals.scale, trace: load.facts, steady: arrivals.file == "" && arrivals.period == 0, offered: got},
	}
	s.warnings = profile.ImplausibleFirst(slices.Concat(f.Warnings, load.warnings, s.report.Warnings, s.saturated(), fewRequests(s.report), f.Outside(s.report)))
	if plan.Caching && !got.shares {
		s.warnings = append(s.warnings, profile.Warnf("nothing_shared", "prefix caching finds nothing, as the load has no shared prefixes. Set --prefix-groups, or use a trace in mooncake or request-trace format"))
	}
	return s, nil
}

// factor is the latency model's median error, the larger of TTFT's and ITL's: an
// attainment without it would sound certain. 0 = it is not known, or nothing is judged.
func (s *simulation) factor() float64 {
	if off := max(s.fleet.TTFTError.Factor50, s.fleet.ITLError.Factor50); off > 1 && s.judged() {
		return off
	}
	return 0
}

// judged reports whether there is an SLA.
func (s *simulation) judged() bool { return s.fleet.SLA.TTFT > 0 || s.fleet.SLA.ITL > 0 }

// seenEvery is how many requests pass between two reports of progress.
const seenEvery = 10_000

// offered is what came of a load.
type offered struct {
	n           int
	first, last time.Duration
	shares      bool // it says of some prompts which blocks they share
}

// perSecond is the mean rate from the first arrival, or the start where that is
// a gap later, to the last.
func (o offered) perSecond() float64 {
	gaps := float64(o.n)
	if o.first == 0 {
		gaps--
	}
	if o.last == 0 {
		return 0
	}
	return gaps / o.last.Seconds()
}

// feed offers a whole trace to a fleet and lets it finish.
func feed(f *fleet.Fleet, t trace.Trace, seen progress) (o offered, b fleet.Batches, err error) {
	for a, err := range t {
		if err != nil {
			return o, b, field.Errorf("%s", ofTrace(err))
		}
		if err := f.Offer(requestOf(a)); err != nil {
			return o, b, notTaken(a, err)
		}
		b.Next(f)
		if o.n == 0 {
			o.first = a.At
		}
		o.last, o.shares = a.At, o.shares || len(a.Blocks) > 0
		if o.n++; o.n%seenEvery == 0 {
			seen(o.n, a.At)
		}
	}
	if o.n == 0 {
		return o, b, field.Errorf("the load holds no request").Hint("a longer --duration, or another --trace")
	}
	if err := f.Finish(fleet.Forever); err != nil {
		return o, b, fmt.Errorf("after %d requests: %w", o.n, err)
	}
	return o, b, nil
}

// notTaken says why a fleet does not take a request.
func notTaken(a trace.Arrival, err error) error {
	over, ok := errors.AsType[*fleet.OverloadError](err)
	switch {
	case !ok && a.Line > 0:
		return field.Errorf("line %d: %v", a.Line, err)
	case !ok:
		return field.Errorf("%v", err)
	}
	replicas := "more replicas"
	if served := over.ServedPerSecond(); served > 0 {
		replicas = fmt.Sprintf("%.3g times the replicas", over.OfferedPerSecond()/served)
	}
	return field.WithHint(err, "%s, a lower rate (--rate; --trace-speed or --trace-scale below 1), or a shorter load (--duration, --requests)", replicas)
}
