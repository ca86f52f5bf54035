package main

import (
	"strings"
	"unicode/utf8"
)

// table is text in aligned columns; columns of numbers only are aligned right.
type table struct {
	head []string
	rows [][]string
	// words is a column that is aligned left whatever its cells begin with; 0: none.
	words int
}

func newTable(head ...string) *table { return &table{head: head} }

func (t *table) row(cells ...string) { t.rows = append(t.rows, cells) }

// text is the table, each line behind indent.
func (t *table) text(indent string) string {
	widths := make([]int, len(t.head))
	right := make([]bool, len(t.head))
	for i, h := range t.head {
		widths[i], right[i] = utf8.RuneCountInString(h), t.words == 0 || i != t.words
		for _, r := range t.rows {
			widths[i] = max(widths[i], utf8.RuneCountInString(r[i]))
			right[i] = right[i] && numeric(r[i])
		}
	}
	var b strings.Builder
	for _, r := range append([][]string{t.head}, t.rows...) {
		line := indent
		for i, c := range r {
			pad := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(c))
			if right[i] {
				line += pad + c + "  "
			} else {
				line += c + pad + "  "
			}
		}
		b.WriteString(strings.TrimRight(line, " ") + "\n")
	}
	return b.String()
}

// numeric reports whether a cell reads as a figure, with its interval or unit.
func numeric(s string) bool {
	return s == "" || s == "–" || strings.ContainsRune("0123456789-", rune(s[0]))
}
