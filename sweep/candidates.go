package sweep

import (
	"fmt"

	"plimsoll/engine"
	"plimsoll/profile"
)

// Candidates are base at each of layouts, in their order. One that needs more
// than gpus GPUs, or does not fit by fits (nil: all do), is left out with its
// reason.
func Candidates(base engine.Config, gpus int, layouts []engine.Parallelism, fits func(engine.Config) error) ([]engine.Config, []profile.Skip) {
	var cs []engine.Config
	var skips []profile.Skip
	for _, p := range layouts {
		c := base
		c.Parallelism = p.Normal()
		err := error(nil)
		if n := c.GPUs(); n > gpus {
			err = fmt.Errorf("needs %d GPUs, %d are visible", n, gpus)
		} else if fits != nil {
			err = fits(c)
		}
		if err != nil {
			skips = append(skips, profile.Skip{Label: p.Label(), Reason: err.Error()})
			continue
		}
		cs = append(cs, c)
	}
	return cs, skips
}
