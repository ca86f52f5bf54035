package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/urfave/cli/v2"

	"plimsoll/engine"
	"plimsoll/engine/field"
	"plimsoll/engine/redact"
	"plimsoll/planner"
	"plimsoll/planner/serve"
	"plimsoll/planner/tensorboard"
)

// historyEvents are kept for the live page: a day of decisions every 30 s, and
// what happens between them.
const historyEvents = 5000

// plannerOutputs takes the events of all deployments to wherever they are wanted.
type plannerOutputs struct {
	out, err io.Writer
	asJSON   bool
	quiet    bool
	hidden   *credentials
	history  *serve.History
	metrics  *serve.Metrics

	mu     sync.Mutex
	log    *os.File
	boards string // folder; empty: none
	open   map[string]*tensorboard.Writer
	steps  map[string]int64
}

func openOutputs(c *cli.Context) (*plannerOutputs, error) {
	o := &plannerOutputs{
		out: c.App.Writer, err: c.App.ErrWriter, asJSON: c.String("format") == "json", quiet: c.Bool("quiet"), hidden: credentialsOf(c),
		history: serve.NewHistory(historyEvents), metrics: serve.NewMetrics(),
		boards: c.String("log-dir"), open: map[string]*tensorboard.Writer{}, steps: map[string]int64{},
	}
	if path := c.String("event-log"); path != "" {
		f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err != nil {
			return nil, field.Errorf("--event-log: %v", err)
		}
		if info, err := f.Stat(); err == nil && info.Mode().IsRegular() {
			_ = f.Chmod(0o600) // another user's file stays as its owner has it
		}
		o.log = f
	}
	return o, nil
}

func (o *plannerOutputs) close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, w := range o.open {
		o.complainLocked(w.Close())
	}
	if o.log != nil {
		o.complainLocked(o.log.Close())
	}
}

// complain reports what failed beside the planner's work.
func (o *plannerOutputs) complain(err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.complainLocked(err)
}

func (o *plannerOutputs) complainLocked(err error) {
	if err != nil {
		say(o.err, "error", "%s", oneLine(err))
	}
}

// take is every event's way out. Writing fails on a full disk; planning goes on.
func (o *plannerOutputs) take(e serve.Event) {
	e = o.redacted(e)
	o.history.Add(e)
	o.metrics.Add(e)
	o.mu.Lock()
	defer o.mu.Unlock()
	line, err := json.Marshal(e)
	if err != nil {
		o.complainLocked(err)
		return
	}
	if o.log != nil {
		_, err := o.log.Write(append(line, '\n')) // one call: lines of two planners do not mix
		o.complainLocked(err)
	}
	if e.Decision != nil && e.Observation != nil {
		o.complainLocked(o.board(e))
	}
	o.print(e, line)
}

// redacted is an event without credentials: its texts may quote a worker's log, or a
// server's address.
func (o *plannerOutputs) redacted(e serve.Event) serve.Event {
	clean := func(s string) string { return redact.Text(o.hidden.text(s)) }
	all := func(texts []string) []string {
		out := slices.Clone(texts)
		for i := range out {
			out[i] = clean(out[i])
		}
		return out
	}
	e.Text = clean(e.Text)
	if e.Observation != nil {
		seen := *e.Observation
		seen.Problems = all(seen.Problems)
		e.Observation = &seen
	}
	if e.Decision != nil {
		d := *e.Decision
		d.Missing, d.Steps, d.Warnings = all(d.Missing), slices.Clone(d.Steps), slices.Clone(d.Warnings)
		for i := range d.Steps {
			d.Steps[i].Why = clean(d.Steps[i].Why)
		}
		for i := range d.Warnings {
			d.Warnings[i].Message = clean(d.Warnings[i].Message)
		}
		e.Decision = &d
	}
	return e
}

func (o *plannerOutputs) print(e serve.Event, line []byte) {
	switch {
	case o.asJSON:
		fmt.Fprintf(o.out, "%s\n", line) //nolint:errcheck // nobody reads any more
	case e.Kind == serve.Failed:
		say(o.err, "error", "%s: %s", e.Name, e.Text)
	case e.Kind == serve.Warned:
		say(o.err, "warning", "%s: %s", e.Name, e.Text)
	case o.quiet:
	default:
		fmt.Fprintf(o.out, "%s %s %s\n", e.At.Format(time.DateTime), e.Name, described(e)) //nolint:errcheck // nobody reads any more
	}
}

// described is an event in one line, and for a decision what led to it.
func described(e serve.Event) string {
	if e.Kind != serve.Decided || e.Decision == nil {
		return strings.TrimSpace(string(e.Kind) + " " + e.Text)
	}
	d := e.Decision
	what := "stays at " + d.Words(d.Want)
	if d.Act {
		what = fmt.Sprintf("%s becomes %s, %s", d.Words(d.From), d.Words(d.Want), engine.Count(d.GPUs, "GPU"))
	}
	steps := d.Steps
	if e.Observation != nil && len(e.Observation.Pools) == 0 { // what runs is not known
		what, steps = "none: no workers are seen", nil
	}
	var lines strings.Builder
	fmt.Fprintf(&lines, "decision: %s", what)
	for _, s := range steps {
		fmt.Fprintf(&lines, "\n    %s", stepLine(s))
	}
	if e.Observation != nil {
		for _, p := range e.Observation.Problems {
			fmt.Fprintf(&lines, "\n    not seen: %s", p)
		}
	}
	for _, w := range d.Warnings {
		fmt.Fprintf(&lines, "\n    warning: %s", w.Message)
	}
	return lines.String()
}

func stepLine(s planner.Step) string {
	text := s.Rule
	if s.Role != "" {
		text = string(s.Role) + " " + text
	}
	if s.From != s.To {
		text += fmt.Sprintf(" %d to %d", s.From, s.To)
	}
	return text + ": " + s.Why
}

// board writes a decision under the tags of Dynamo's load planner
// (examples/llm/components/planner.py, 2025-05), and those of its SLA planner's
// figures that we have.
func (o *plannerOutputs) board(e serve.Event) error {
	if o.boards == "" {
		return nil
	}
	w := o.open[e.Name]
	if w == nil {
		var err error
		dir := o.boards + "/" + e.Name + "/" + e.At.Format("0102_150405")
		if w, err = tensorboard.Create(dir, e.At); err != nil {
			o.boards = "" // once is enough
			return err
		}
		o.open[e.Name] = w
	}
	o.steps[e.Name]++
	return w.Add(e.At, o.steps[e.Name], boardScalars(*e.Observation, *e.Decision)...)
}

func boardScalars(o planner.Observation, d planner.Decision) []tensorboard.Scalar {
	var out []tensorboard.Scalar
	add := func(tag string, f planner.Figure[float64]) {
		if f.Known {
			out = append(out, tensorboard.Scalar{Tag: tag, Value: f.Value})
		}
	}
	count := func(tag string, n int) { add(tag, planner.Known(float64(n))) }
	prefill, split := o.Pool(engine.RolePrefill)
	decode, ok := o.Pool(engine.RoleDecode)
	if !ok {
		decode, _ = o.Pool(engine.RoleAggregated)
	}
	if split {
		count("num_prefill_workers", prefill.Ready)
		add("prefill_queue_size", prefill.Queue)
	} else {
		add("prefill_queue_size", decode.Queue)
	}
	count("num_decode_workers", decode.Ready)
	add("average_kv_load", decode.KVUsage)
	add("total_queued_requests", o.Waiting)
	count("num_gpu", d.GPUs)
	add("observed_ttft_ms", planner.Milliseconds(o.TTFT.Mean))
	add("observed_itl_ms", planner.Milliseconds(o.ITL.Mean))
	add("observed_requests", o.Arrivals)
	add("predicted_requests_per_second", d.Forecast.Rate)
	add("p_correction_factor", d.Correction.Prefill)
	add("d_correction_factor", d.Correction.Decode)
	return out
}
