package main

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// table prints aligned columns; columns of numbers only are aligned right.
type table struct {
	head []string
	rows [][]string
}

func newTable(head ...string) *table { return &table{head: head} }

func (t *table) row(cells ...string) { t.rows = append(t.rows, cells) }

func (t *table) write(w io.Writer, indent string) error {
	widths := make([]int, len(t.head))
	right := make([]bool, len(t.head))
	for i, h := range t.head {
		widths[i], right[i] = utf8.RuneCountInString(h), true
		for _, r := range t.rows {
			widths[i] = max(widths[i], utf8.RuneCountInString(r[i]))
			right[i] = right[i] && numeric(r[i])
		}
	}
	for _, r := range append([][]string{t.head}, t.rows...) {
		var b strings.Builder
		b.WriteString(indent)
		for i, c := range r {
			pad := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(c))
			if right[i] {
				b.WriteString(pad + c)
			} else {
				b.WriteString(c + pad)
			}
			if i < len(r)-1 {
				b.WriteString("  ")
			}
		}
		if _, err := fmt.Fprintln(w, strings.TrimRight(b.String(), " ")); err != nil {
			return fmt.Errorf("printing: %w", err)
		}
	}
	return nil
}

// numeric reports whether a cell reads as a figure, with its interval or unit.
func numeric(s string) bool {
	return s == "" || s == "–" || strings.ContainsRune("0123456789-", rune(s[0]))
}
