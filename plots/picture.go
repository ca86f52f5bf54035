// Package plots draws the pictures of a profile, and of a fleet over time: it
// takes numbers that others measured, fitted and judged, and gives PNG and SVG
// into an io.Writer. Picks, feasibility and predictions come in as data; it
// decides nothing.
//
// The same input gives the same bytes. It refuses, with an error that names
// the series, any number that is not finite, is negative or is beyond 1e15; no
// points at all is not an error but an empty picture that says why.
//
// Lengths inside are points (1/72 inch), with the origin at the bottom left.
package plots

import (
	"bytes"
	"fmt"
	"html"
	"image/png"
	"io"
	"strings"

	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/vgimg"
	"gonum.org/v1/plot/vg/vgsvg"
)

// The page: 900 × 600 points are 1200 × 800 pixels at 96 dots per inch.
const (
	pageWidth  vg.Length = 900
	pageHeight vg.Length = 600
)

// DPI are the dots per inch of a PNG. Tests of whole commands, which draw hundreds that
// nobody looks at, take fewer.
var DPI = 96 //nolint:gochecknoglobals // a constant outside of tests

// A Picture is ready to be written, as often and in as many formats as wanted.
type Picture struct {
	title string
	paint func(pen)
}

// WritePNG writes the picture as a PNG of 1200 × 800 pixels.
func (p *Picture) WritePNG(w io.Writer) error {
	c := vgimg.NewWith(vgimg.UseWH(pageWidth, pageHeight), vgimg.UseDPI(DPI))
	p.paint(pen{c, true})
	fast := png.Encoder{CompressionLevel: png.BestSpeed}
	if err := fast.Encode(w, c.Image()); err != nil {
		return fmt.Errorf("writing plot %q as PNG: %w", p.title, err)
	}
	return nil
}

// WriteSVG writes the picture as an SVG document of 900 × 600 points. Text
// stays text: it names Liberation Sans and, for machines without it, fonts of
// the same widths.
func (p *Picture) WriteSVG(w io.Writer) error {
	c := vgsvg.NewWith(vgsvg.UseWH(pageWidth, pageHeight))
	p.paint(pen{c, false})
	var doc bytes.Buffer
	if _, err := c.WriteTo(&doc); err != nil {
		return fmt.Errorf("drawing plot %q as SVG: %w", p.title, err)
	}
	if _, err := w.Write(portableSVG(doc.Bytes(), p.title)); err != nil {
		return fmt.Errorf("writing plot %q as SVG: %w", p.title, err)
	}
	return nil
}

// portableSVG mends what vgsvg leaves out: a title for screen readers; font
// families to fall back on; the translucency of text, of which the watermark
// alone has any; and of images the true media type (it says JPEG of a PNG) and
// the leave to be stretched. Text is escaped, so that a quotation mark or an
// angle bracket is never found in a model's name.
func portableSVG(doc []byte, title string) []byte {
	const head = `xmlns:xlink="http://www.w3.org/1999/xlink">`
	mark := colourMark()
	fill := fmt.Sprintf("fill:#%02X%02X%02X", mark.R, mark.G, mark.B)
	return []byte(strings.NewReplacer(
		head, head+"\n<title>"+html.EscapeString(title)+"</title>",
		`style="font-family:Liberation Sans;`, `style="font-family:'Liberation Sans',Arimo,Arial,Helvetica,sans-serif;`,
		fill+`"`, fmt.Sprintf(`%s;fill-opacity:%.3g"`, fill, float64(mark.A)/255),
		`xlink:href="data:image/jpg;base64,`, `preserveAspectRatio="none" xlink:href="data:image/png;base64,`,
	).Replace(string(doc)))
}
