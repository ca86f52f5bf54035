// Package pages makes pages for people: values in, one HTML file out, which
// holds all that it shows and asks for nothing else.
//
// A page is a template of assets/, its style and its script, with the numbers as
// JSON in a data block. Every text that is not the package's own is escaped by
// html/template, a Content-Security-Policy allows the page's own style and script
// by their hashes and nothing beyond, and tables hold what charts show, so that a
// page without its script still says everything but what changes over time.
//
// Charts are drawn by the page as SVG: they take the colours of light, dark and
// paper from its style, stay sharp in print, and their marks can be focused and
// named one by one. The script's files are joined in the order in which files()
// lists them.
package pages
