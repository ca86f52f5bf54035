package plots

import (
	"fmt"
	"image"
	"math"

	"gonum.org/v1/plot/vg"
)

// heatMap is a picture of a value over KV usage and context.
type heatMap struct {
	caption Caption
	mapFace
	samples []sample
	picked  *Mark
	maxKV   int // tokens; 0 = not stated

	x, y   axis
	shown  lattice   // the value
	itl    lattice   // ITL in ms; its SLA contour is drawn
	mask   mask      // where it was measured, finer than the lattice
	levels []float64 // band k is from levels[k] to levels[k+1]
	met    bool      // the ITL SLA, somewhere
	failed bool      // the ITL SLA, somewhere
}

// Steps of the lattice. The fit is asked at every crossing of it, and finer only
// along the border of what was measured.
const (
	latticeX = 150
	latticeY = 100
)

// fine are the steps of the mask within one step of the lattice: one is about a pixel.
func fine() int { return max(1, 5*DPI/96) }

// mask says which pixels of a map are painted.
type mask struct {
	w, h int
	on   []bool
}

// at is the pixel at a position of the lattice.
func (k mask) at(q xy) bool {
	n := float64(fine())
	x, y := int(q.x*n), int(q.y*n)
	return x >= 0 && y >= 0 && x < k.w && y < k.h && k.on[y*k.w+x]
}

// survey asks the fits once, for everything that will be drawn.
func (m *heatMap) survey(value, itl Surface) error {
	var kvs, contexts []float64
	for _, s := range m.samples {
		kvs, contexts = append(kvs, s.kv), append(contexts, s.context)
	}
	if m.picked != nil {
		kvs, contexts = append(kvs, m.picked.KVUsage), append(contexts, m.picked.Context)
	}
	// A usage is a fraction of one, however small its least value.
	m.x, m.y = linearAxis(m.xName(), kvs), newAxis(contextName, contexts)
	var err error
	if m.shown, err = m.sample(value, m.name); err != nil {
		return err
	}
	if itl != nil {
		if m.itl, err = m.sample(itl, "ITL"); err != nil {
			return err
		}
	}
	m.mask = m.outline(value)
	lo, hi := m.shown.bounds()
	if lo > hi {
		return nil
	}
	for _, d := range m.samples { // the lattice may step over the least of them
		lo, hi = min(lo, d.value), max(hi, d.value)
	}
	best, worst := m.itl.bounds()
	m.met, m.failed = best <= ms(m.caption.SLA.ITL), worst > ms(m.caption.SLA.ITL)
	m.levels = bandLevels(lo, m.shown.low(), hi)
	m.shown, m.itl = m.shown.grown(), m.itl.grown()
	return nil
}

func (m *heatMap) sample(f Surface, name string) (lattice, error) {
	l := lattice{nx: latticeX, ny: latticeY}
	for j := range latticeY + 1 {
		for i := range latticeX + 1 {
			kv, context := m.place(float64(i), float64(j))
			v, inRange := f(kv, context)
			if !inRange {
				v = math.NaN()
			} else if err := drawable("interpolation", fmt.Sprintf("%s at KV usage %s and context %s", name, number(kv), number(context)), v); err != nil {
				return lattice{}, err
			}
			l.v = append(l.v, v)
		}
	}
	return l, nil
}

// place is the KV usage and context at a position of the lattice.
func (m *heatMap) place(x, y float64) (kv, context float64) {
	return m.x.at(x / latticeX), m.y.at(y / latticeY)
}

// outline asks the fit, pixel by pixel, only where crossings around it disagree.
func (m *heatMap) outline(f Surface) mask {
	fine := fine()
	k := mask{w: latticeX * fine, h: latticeY * fine}
	k.on = make([]bool, k.w*k.h)
	for y := range k.h {
		for x := range k.w {
			i, j := x/fine, y/fine
			known := 0
			for _, v := range []float64{m.shown.at(i, j), m.shown.at(i+1, j), m.shown.at(i, j+1), m.shown.at(i+1, j+1)} {
				if !math.IsNaN(v) {
					known++
				}
			}
			on := known == 4
			if known > 0 && known < 4 {
				kv, context := m.place((float64(x)+0.5)/float64(fine), (float64(y)+0.5)/float64(fine))
				_, on = f(kv, context)
			}
			k.on[y*k.w+x] = on
		}
	}
	return k
}

// bandRatio is the max/min above which bands of equal width would put most of a
// map into the first one.
const bandRatio = 20

// bandLevels are the limits of about eight bands that hold lo and hi, at round
// numbers: equally far apart, or by ratio over a wide range. Values below low,
// the few least of all, then share one band; a single 0 must not decide.
func bandLevels(lo, low, hi float64) []float64 {
	if hi-lo <= max(1e-6*hi, least) { // one value: one band
		return []float64{lo, max(hi, lo*(1+1e-3), lo+1e-6)}
	}
	if low >= least && hi/low > bandRatio {
		ls := logLevels(low, hi)
		if lo < ls[0] {
			ls = append([]float64{0}, ls...)
		}
		return ls
	}
	step := niceStep((hi - lo) / 8)
	var ls []float64
	for k := math.Floor(lo/step + 1e-9); ; k++ {
		ls = append(ls, k*step)
		if k*step >= hi || len(ls) > 40 {
			return ls
		}
	}
}

// logLevels step through round numbers of each decade, the fewer the more
// decades there are.
func logLevels(lo, hi float64) []float64 {
	steps, every := []float64{1, 1.5, 2, 3, 5, 7}, 1
	switch decades := math.Log10(hi / lo); {
	case decades > 3.3:
		steps, every = []float64{1}, max(1, int(math.Ceil(decades/9)))
	case decades > 2.1:
		steps = []float64{1, 2, 5}
	}
	var ls []float64
	for e := int(math.Floor(math.Log10(lo))); ; e += every {
		for _, s := range steps {
			v := s * math.Pow(10, float64(e))
			if len(ls) == 1 && v <= lo {
				ls = ls[:0] // the band below is empty
			}
			ls = append(ls, v)
			if v >= hi && len(ls) > 1 {
				return ls
			}
		}
	}
}

// band is the number of the band that v is in.
func (m *heatMap) band(v float64) int {
	k := 0
	for k < len(m.levels)-2 && v >= m.levels[k+1] {
		k++
	}
	return k
}

// pixels is the map as an image, clear where nothing was measured.
func (m *heatMap) pixels() image.Image {
	colours := ramp(len(m.levels) - 1)
	n := float64(fine())
	img := image.NewNRGBA(image.Rect(0, 0, m.mask.w, m.mask.h))
	for y := range m.mask.h {
		for x := range m.mask.w {
			v := m.shown.cell((float64(x)+0.5)/n, (float64(y)+0.5)/n)
			if m.mask.on[y*m.mask.w+x] && !math.IsNaN(v) {
				img.SetNRGBA(x, m.mask.h-1-y, colours[m.band(v)])
			}
		}
	}
	return img
}

func (m *heatMap) paint(p pen) {
	top := m.caption.header(p, m.title, false)
	bottom := m.caption.footer(p)
	f := newFrame(vg.Rectangle{
		Min: vg.Point{X: margin, Y: bottom},
		Max: vg.Point{X: pageWidth - margin - legendWidth - 16, Y: top},
	}, m.x, m.y)
	p.hatch(f.area)
	p.DrawImage(f.area, m.pixels())
	if w := m.caption.watermark(); w != "" {
		p.watermark(f.area, w)
	}
	ls := &placer{area: f.area}
	labels := m.ink(p, f, ls)
	f.axes(p)
	for _, l := range labels {
		l.draw(p)
	}
	m.side(p, vg.Rectangle{
		Min: vg.Point{X: f.area.Max.X + 16, Y: f.area.Min.Y},
		Max: vg.Point{X: pageWidth - margin, Y: f.area.Max.Y},
	})
}
