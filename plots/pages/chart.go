package pages

// chart is one of marks by two figures, as xy.js draws it.
type chart struct {
	Title  string       `json:"title"`
	X      string       `json:"x"` // its name and unit
	Y      string       `json:"y"`
	Log    bool         `json:"log"` // room for each decade of x
	Series []series     `json:"series"`
	Limits []chartLimit `json:"limits,omitempty"`
}

// series are points of one kind. Colour and shape are numbers of the palettes.
type series struct {
	Name   string       `json:"name"`
	Colour int          `json:"colour"`
	Shape  int          `json:"shape"`
	Dashed bool         `json:"dashed"`
	Bare   bool         `json:"bare"` // no line joins its points
	Points []chartPoint `json:"points"`
}

// chartPoint is a mark, and what it says when pointed at. Low and High are where Y
// may be; nil: not known.
type chartPoint struct {
	X    float64  `json:"x"`
	Y    float64  `json:"y"`
	Low  *float64 `json:"low,omitempty"`
	High *float64 `json:"high,omitempty"`
	Text string   `json:"text"`
	ID   string   `json:"id,omitempty"`
}

// chartLimit is a line at an x.
type chartLimit struct {
	X      float64 `json:"x"`
	Name   string  `json:"name"`
	Colour *int    `json:"colour,omitempty"` // of the palette; nil: a limit's own
}
