package store

import (
	"errors"
	"fmt"
	"math"
	"time"

	"plimsoll/profile"
)

// RunSchema is the version of run.json.
const RunSchema = 1

// Run is run.json: all that is known of how a profile came to be. It holds the
// points too, so that everything can be drawn and judged again from it alone.
type Run struct {
	Schema     int                `json:"schema"`
	Program    string             `json:"program"` // "plimsoll"
	Version    string             `json:"version"` // of this program
	Inputs     Inputs             `json:"inputs"`
	Seed       uint64             `json:"seed"`
	Provenance profile.Provenance `json:"provenance"` // of the whole: the weakest of its points
	SLA        profile.SLA        `json:"sla"`
	Engines    []EngineFacts      `json:"engines"`
	GPUs       []Device           `json:"gpus"`
	Started    time.Time          `json:"started"`
	Ended      time.Time          `json:"ended"`
	Complete   bool               `json:"complete"`         // false: stopped early, --resume goes on
	Client     *Client            `json:"client,omitempty"` // whether the load generator kept up; nil = virtual time
	Points     []profile.Point    `json:"points"`
	Discarded  []profile.Point    `json:"discarded,omitempty"` // what was sent again, each with why it does not count
	Skips      []profile.Skip     `json:"skips"`
	Warnings   []profile.Warning  `json:"warnings"`
	Cost       Cost               `json:"cost"`
	// CostByStage is what each stage had of Cost.
	CostByStage map[profile.Stage]Cost `json:"cost_by_stage,omitempty"`
}

// Device is one GPU that the run used.
type Device struct {
	Index       int    `json:"index"`
	Name        string `json:"name"` // catalog name, else the driver's
	UUID        string `json:"uuid,omitempty"`
	MemoryBytes int64  `json:"memory_bytes"`
	Driver      string `json:"driver,omitempty"`
	Simulated   bool   `json:"simulated"`
}

// Cost is what the measuring took.
type Cost struct {
	Launches       int     `json:"launches"`
	EngineSeconds  float64 `json:"engine_seconds"`  // Σ time that engines ran
	LoadingSeconds float64 `json:"loading_seconds"` // of these, from a launch until the engine answered
	GPUSeconds     float64 `json:"gpu_seconds"`     // Σ engine-seconds × GPUs of the engine; simulated GPUs count
	Requests       int     `json:"requests"`        // warm-up included
	PromptTokens   int64   `json:"prompt_tokens"`
	OutputTokens   int64   `json:"output_tokens"`
}

// program marks files as this program's.
const program = "plimsoll"

// WriteRun writes run.json below dir, with Schema and Program filled in.
func WriteRun(dir string, r Run) error {
	r.Schema, r.Program = RunSchema, program
	if r.Inputs == nil {
		r.Inputs = Inputs{}
	}
	r.Engines, r.GPUs, r.Points = orEmpty(r.Engines), orEmpty(r.GPUs), orEmpty(r.Points)
	r.Skips, r.Warnings = orEmpty(r.Skips), orEmpty(r.Warnings)
	return writeJSON(path(dir, RunFile), r)
}

// ReadRun reads run.json below dir.
func ReadRun(dir string) (Run, error) {
	file := path(dir, RunFile)
	b, err := readFile(file)
	if err != nil {
		return Run{}, err
	}
	if err := checkSchema(b, RunSchema); err != nil {
		return Run{}, fmt.Errorf("%s: %w", file, err)
	}
	var r Run
	if err := decodeStrict(b, &r); err != nil {
		return Run{}, fmt.Errorf("%s: %w", file, err)
	}
	if r.Program != program {
		return Run{}, fmt.Errorf("%s: program is %.40q: not a file of plimsoll's", file, r.Program)
	}
	return r, nil
}

// ErrSchema is wrapped by every refusal of a file of another version.
var ErrSchema = errors.New("another schema")

// orEmpty makes lists in JSON lists, never null.
func orEmpty[T any](s []T) []T {
	if s == nil {
		return []T{}
	}
	return s
}

// since is what was spent between an earlier cost and c, on top of more; seconds to the
// nanosecond.
func (c Cost) since(o, more Cost) Cost {
	seconds := func(c, o, more float64) float64 { return math.Round((c-o+more)*1e9) / 1e9 }
	return Cost{
		Launches:       c.Launches - o.Launches + more.Launches,
		EngineSeconds:  seconds(c.EngineSeconds, o.EngineSeconds, more.EngineSeconds),
		LoadingSeconds: seconds(c.LoadingSeconds, o.LoadingSeconds, more.LoadingSeconds),
		GPUSeconds:     seconds(c.GPUSeconds, o.GPUSeconds, more.GPUSeconds),
		Requests:       c.Requests - o.Requests + more.Requests,
		PromptTokens:   c.PromptTokens - o.PromptTokens + more.PromptTokens,
		OutputTokens:   c.OutputTokens - o.OutputTokens + more.OutputTokens,
	}
}

// Spent is what a run took so far, by the stage of the points that it took it for.
type Spent struct {
	Total   Cost
	ByStage map[profile.Stage]Cost

	last profile.Stage
}

// Reach books what was spent since the last point to the stage of the next one.
func (s *Spent) Reach(stage profile.Stage, total Cost) {
	if s.ByStage == nil {
		s.ByStage = map[profile.Stage]Cost{}
	}
	s.ByStage[stage] = total.since(s.Total, s.ByStage[stage])
	s.Total, s.last = total, stage
}

// End books what was spent after the last point, on ending its engine.
func (s *Spent) End(total Cost) {
	if len(s.ByStage) > 0 {
		s.Reach(s.last, total)
	}
}
