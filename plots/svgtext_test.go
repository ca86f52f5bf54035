package plots

import (
	"encoding/xml"
	"errors"
	"io"
	"regexp"
	"strconv"
	"strings"

	"gonum.org/v1/plot/vg"
)

// failer is what *testing.T and *rapid.T have in common here.
type failer interface {
	Helper()
	Errorf(format string, args ...any)
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

// drawn is a text in an SVG, read back from the document itself.
type drawn struct {
	text string
	box  vg.Rectangle
}

var fontSize = regexp.MustCompile(`font-size:([\d.]+)px`)

// texts are the upright texts of a document. Turned ones (the watermark, the
// name of the y axis) stand in a group of their own and are left out.
func texts(t failer, doc string) []drawn {
	t.Helper()
	var out []drawn
	depth := 0
	d := xml.NewDecoder(strings.NewReader(doc))
	for {
		tok, err := d.Token()
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatalf("SVG is not XML: %v", err)
		}
		switch e := tok.(type) {
		case xml.StartElement:
			if e.Name.Local == "g" {
				depth++
			}
			if e.Name.Local != "text" {
				continue
			}
			var s string
			if err := d.DecodeElement(&s, &e); err != nil {
				t.Fatal(err)
			}
			if depth == 1 {
				out = append(out, drawnAt(t, e, s))
			}
		case xml.EndElement:
			if e.Name.Local == "g" {
				depth--
			}
		}
	}
}

func drawnAt(t failer, e xml.StartElement, s string) drawn {
	t.Helper()
	a := map[string]string{}
	for _, v := range e.Attr {
		a[v.Name.Local] = v.Value
	}
	num := func(s string) vg.Length {
		v, err := strconv.ParseFloat(s, 64)
		if err != nil {
			t.Fatal(err)
		}
		return vg.Length(v)
	}
	size := fontSize.FindStringSubmatch(a["style"])
	if size == nil {
		t.Fatalf("text %q has no size: %q", s, a["style"])
	}
	f := face{num(size[1]), strings.Contains(a["style"], "font-weight:bold")}
	return drawn{s, f.box(s, vg.Point{X: num(a["x"]), Y: -num(a["y"])})}
}

// checkTexts holds that every text is on the page and none is on another.
func checkTexts(t failer, all []drawn) {
	t.Helper()
	for i, a := range all {
		if a.box.Min.X < 0 || a.box.Min.Y < 0 || a.box.Max.X > pageWidth || a.box.Max.Y > pageHeight {
			t.Errorf("%q leaves the page: %v", a.text, a.box)
		}
		for _, b := range all[:i] {
			if w, h := overlap(a.box, b.box); w > 0.5 && h > 0.5 {
				t.Errorf("%q lies on %q: %v, %v", a.text, b.text, a.box, b.box)
			}
		}
	}
}
