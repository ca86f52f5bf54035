package pages

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"strings"

	"plimsoll/profile"
)

//go:embed assets/*.html assets/*.css assets/*.js
var assets embed.FS //nolint:gochecknoglobals // embedding has no other form

// Fact is a line of what was looked at, and how.
type Fact struct {
	Name string // "Load"
	Text string
}

// Origin is what every page says of where it comes from.
type Origin struct {
	Title      string
	Provenance profile.Provenance // of the weakest number shown
	Virtual    bool               // in virtual time: not even a clock was real
	Version    string             // of plimsoll
	Command    string             // that makes it again
	Facts      []Fact
	Warnings   []Warning
}

// shell is what the templates are given.
type shell struct {
	Origin

	Policy string       // for Content-Security-Policy
	Style  template.CSS // the package's own
	Script template.JS  // likewise
	Data   any          // for the script, as JSON
	Body   any          // for the page's own template
}

// page is one kind of page: its template, and the scripts that it needs.
type page struct {
	template string
	scripts  []string
}

// html is the whole file.
func (p page) html(o Origin, data, body any) ([]byte, error) {
	if _, err := o.Provenance.MarshalText(); err != nil {
		return nil, fmt.Errorf("page %q: %w", o.Title, err)
	}
	style, script := read("page.css"), strings.Builder{}
	script.WriteString("\"use strict\";\n{\n")
	for _, name := range append([]string{"print.js"}, p.scripts...) {
		script.WriteString(read(name))
	}
	script.WriteString("}\n")
	all := shell{
		Origin: o, Style: template.CSS(style), Script: template.JS(script.String()), Data: data, Body: body, //nolint:gosec // files of this package
		Policy: "default-src 'none'; style-src " + hash(style) + "; script-src " + hash(script.String()) + "; img-src data:; base-uri 'none'; form-action 'none'",
	}
	t, err := template.New("shell.html").Funcs(template.FuncMap{"standing": standing, "caveats": Origin.caveats, "implausible": Origin.implausible}).ParseFS(assets, "assets/shell.html", "assets/"+p.template)
	if err != nil {
		return nil, fmt.Errorf("page %q: %w", o.Title, err)
	}
	var b bytes.Buffer
	if err := t.Execute(&b, all); err != nil {
		return nil, fmt.Errorf("page %q: %w", o.Title, err)
	}
	return b.Bytes(), nil
}

// read is an embedded file.
func read(name string) string {
	b, err := assets.ReadFile("assets/" + name)
	if err != nil { // a misspelt name: a programmer's bug
		panic(err)
	}
	return string(b)
}

// hash is an inline style or script as a Content-Security-Policy names it.
func hash(s string) string {
	sum := sha256.Sum256([]byte(s))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}

// standing says how far to trust what the page shows.
func standing(o Origin) string {
	words := map[profile.Provenance]string{
		profile.Measured:  "a real engine answered",
		profile.Simulated: "not measured on a GPU",
		profile.Estimated: "computed by a latency model, not measured",
		profile.Published: "a rule of thumb from a table, not measured",
	}[o.Provenance]
	if o.Virtual {
		words += "; in virtual time"
	}
	return words
}
