package pages

// column is one of the comparison's.
type column struct {
	name  string
	unit  string
	scale float64 // from the value to what is shown
	fixed int     // decimals; below 0: significant digits
	of    func(Policy) *Figure
}

// columns are those that a policy says by itself.
func columns() []column {
	shown := func(of func(Policy) Figure) func(Policy) *Figure {
		return func(p Policy) *Figure { f := of(p); return &f }
	}
	return []column{
		{"Attained", "%", 100, 2, shown(func(p Policy) Figure { return p.Both })},
		{"TTFT met", "%", 100, 2, shown(func(p Policy) Figure { return p.TTFT })},
		{"ITL met", "%", 100, 2, shown(func(p Policy) Figure { return p.ITL })},
		{"Time under SLO", "%", 100, 2, shown(func(p Policy) Figure { return p.UnderSLO })},
		{"Goodput", "requests/s", 1, -1, shown(func(p Policy) Figure { return p.GoodRequests })},
		{"Goodput", "tokens/s", 1, -1, shown(func(p Policy) Figure { return p.GoodTokens })},
		{"GPU-hours", "total", 1, -1, shown(func(p Policy) Figure { return p.GPUHours })},
		{"GPU-hours", "over plan's", 1, -1, func(p Policy) *Figure { return p.OverPlan }},
		{"Scalings", "number", 1, -1, shown(func(p Policy) Figure { return p.Scalings })},
	}
}

// replayBody is what the template shows.
type replayBody struct {
	Summary     string
	Head        []headCell
	Rows        []row
	Differences []row
	Than        string // what Differences are against
	Policies    []Policy
	Seeds       int
	Terms       []Fact
	NotModelled []string
}

type headCell struct{ Name, Unit string }

type row struct {
	Index int
	Name  string
	Oddly bool // clairvoyant: not a policy that could be run
	Holds bool
	Cells []cell
}

// cell is a figure, or none.
type cell struct {
	Name, Unit string
	Text       string
	Value      float64 // to sort by
	Known      bool
}

func (r Replay) body() replayBody {
	b := replayBody{Summary: r.summary(), Policies: r.Policies, Seeds: r.Seeds, Terms: r.Terms, NotModelled: r.NotModelled}
	cs := r.columns()
	for _, c := range cs {
		b.Head = append(b.Head, headCell{c.name, c.unit})
	}
	for i, p := range r.Policies {
		x := row{Index: i, Name: p.Name, Oddly: p.Clairvoyant, Holds: p.Both.Mean >= r.Target}
		for _, c := range cs {
			x.Cells = append(x.Cells, c.cell(c.of(p)))
		}
		b.Rows = append(b.Rows, x)
		if d := p.Against; d != nil {
			points, hours := column{"Attained", "points", 100, 2, nil}, column{"GPU-hours", "GPU h", 1, -1, nil}
			b.Than = d.Policy
			b.Differences = append(b.Differences, row{Index: i, Name: p.Name, Cells: []cell{points.cell(&d.Both).signed(), hours.cell(&d.GPUHours).signed()}})
		}
	}
	return b
}

// columns are those that some policy has something in.
func (r Replay) columns() []column {
	var out []column
	for _, c := range columns() {
		for _, p := range r.Policies {
			if c.of(p) != nil {
				out = append(out, c)
				break
			}
		}
	}
	return out
}

func (c column) cell(f *Figure) cell {
	if f == nil {
		return cell{Name: c.name, Unit: c.unit, Text: "–"}
	}
	g := f.times(c.scale)
	text := g.text()
	if c.fixed >= 0 {
		text = g.fixed(c.fixed)
	}
	return cell{Name: c.name, Unit: c.unit, Text: text, Value: g.Mean, Known: true}
}

// signed is a difference's.
func (c cell) signed() cell {
	if c.Value > 0 {
		c.Text = "+" + c.Text
	}
	return c
}

// replayData is what the page's script draws.
type replayData struct {
	Target   float64      `json:"target"`
	Policies []policyData `json:"policies"`
	Open     []string     `json:"open"` // whose timelines are shown at first
}

type policyData struct {
	Name        string       `json:"name"`
	Clairvoyant bool         `json:"clairvoyant"`
	Attained    Figure       `json:"attained"`
	GPUHours    Figure       `json:"gpu_hours"`
	Timeline    timelineData `json:"timeline"`
}

func (r Replay) data() replayData {
	d := replayData{Target: r.Target}
	for _, p := range r.Policies {
		d.Policies = append(d.Policies, policyData{p.Name, p.Clairvoyant, p.Both, p.GPUHours, p.Timeline.data()})
	}
	d.Open = r.shown()
	return d
}

// shown are the policies that a reader asks for first: the best, and the one that
// the others are compared with.
func (r Replay) shown() []string {
	last := r.Policies[len(r.Policies)-1].Name
	if best, ok := r.best(); ok && best.Name != last {
		return []string{best.Name, last}
	}
	return []string{last}
}
