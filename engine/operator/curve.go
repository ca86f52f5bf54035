package operator

import (
	_ "embed" // the curves
	"encoding/json"
	"fmt"
	"sync"
)

//go:embed curves.json
var curvesJSON []byte

// Curve is one operator's time on one kind of GPU.
type Curve struct {
	Kind       Kind      `json:"kind"`
	GPU        string    `json:"gpu"`              // catalog name
	Engine     string    `json:"engine,omitempty"` // whose kernel; empty where engines choose the fastest
	Version    string    `json:"version"`          // of the engine or library
	DType      DType     `json:"dtype,omitempty"`  // of both operands; of the KV cache in attention
	Parameters []float64 `json:"parameters"`
	// On shapes left out of the fit, |predicted/measured − 1|.
	Median float64 `json:"median"`
	P90    float64 `json:"p90"`
	N      int     `json:"n"` // measured shapes
}

// Curves are those that come with the program.
var Curves = sync.OnceValue(func() []Curve {
	var out []Curve
	if err := json.Unmarshal(curvesJSON, &out); err != nil {
		panic(fmt.Sprintf("operator: the embedded curves: %v", err))
	}
	return out
})
