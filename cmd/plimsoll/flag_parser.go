package main

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"plimsoll/engine"
	"plimsoll/profile/load"
)

// parser collects the first complaint, so that parsing reads as a list.
type parser struct {
	c   *cli.Context
	err error
}

func (p *parser) fail(err *usageError) {
	if p.err == nil {
		p.err = err
	}
}

// absent reports whether a flag was left alone and has no default.
func (p *parser) absent(name, value string) bool { return value == "" && !p.c.IsSet(name) }

// needs refuses flags that would have no effect: they mean something only where
// the condition holds.
func (p *parser) needs(holds bool, only string, names ...string) {
	for _, name := range names {
		if !holds && p.c.IsSet(name) {
			p.fail(usagef("--%s has a meaning only %s", name, only))
		}
	}
}

// name reads a text that is not empty; "" where there is none.
func (p *parser) name(flag string) string {
	s := strings.TrimSpace(p.c.String(flag))
	if s == "" && p.c.IsSet(flag) {
		p.fail(usagef("--%s %q: want a name, or no such flag", flag, p.c.String(flag)))
	}
	return s
}

// integer reads a whole number in [lo, hi]; absent where there is none.
func (p *parser) integer(name string, lo, hi, absent int) int {
	s := strings.TrimSpace(p.c.String(name))
	if p.absent(name, s) {
		return absent
	}
	n, err := strconv.Atoi(strings.ReplaceAll(s, "_", ""))
	if err != nil || n < lo || n > hi {
		p.fail(usagef("--%s %q: want a whole number from %d to %d", name, s, lo, hi))
		return absent
	}
	return n
}

// millis reads a positive duration given in milliseconds.
func (p *parser) millis(name string) time.Duration {
	s := p.c.String(name)
	v, err := strconv.ParseFloat(strings.TrimSpace(s), 64)
	if err != nil || math.IsNaN(v) || v < leastMillis || v > maxMillis {
		p.fail(usagef("--%s %q: want milliseconds from %g to %d", name, s, leastMillis, maxMillis))
		return 0
	}
	return time.Duration(math.Round(v * float64(time.Millisecond)))
}

// optionalMillis reads milliseconds where they are given; 0 where not.
func (p *parser) optionalMillis(name string) time.Duration {
	if p.absent(name, strings.TrimSpace(p.c.String(name))) {
		return 0
	}
	return p.millis(name)
}

// required reads milliseconds that have to be given.
func (p *parser) required(name string) time.Duration {
	if p.name(name) == "" {
		p.fail(usagef("--%s is missing: want milliseconds", name))
		return 0
	}
	return p.millis(name)
}

// outputTokens reads the output length: an ITL lies between two tokens.
func (p *parser) outputTokens(name string) int {
	if strings.TrimSpace(p.c.String(name)) == "1" {
		p.fail(usagef("--%s 1: one output token has no inter-token latency: want at least 2", name))
	}
	return p.integer(name, 1, maxTokens, 0)
}

// duration reads a positive Go duration; 0 where there is none.
func (p *parser) duration(name string) time.Duration {
	s := strings.TrimSpace(p.c.String(name))
	if p.absent(name, s) {
		return 0
	}
	d, err := time.ParseDuration(s)
	if err != nil || d <= 0 {
		p.fail(usagef("--%s %q: want a time above 0, such as 90s, 30m or 2h", name, s))
		return 0
	}
	return d
}

// number reads a decimal in [lo, hi].
func (p *parser) number(name string, lo, hi float64) float64 {
	s := strings.TrimSpace(p.c.String(name))
	v, err := strconv.ParseFloat(s, 64)
	if err != nil || !(v >= lo && v <= hi) { // so that NaN is refused
		p.fail(usagef("--%s %q: want a number from %g to %g", name, s, lo, hi))
		return lo
	}
	return v
}

// fraction reads a part of a whole that may be nothing, and not all.
func (p *parser) fraction(name string) float64 {
	s := p.c.String(name)
	v, err := strconv.ParseFloat(strings.TrimSpace(s), 64)
	if err != nil || math.IsNaN(v) || v < 0 || v >= 1 {
		p.fail(usagef("--%s %q: want a fraction from 0 to below 1", name, s))
	}
	return v
}

// share reads a part of a whole; 0 where there is none.
func (p *parser) share(name string) float64 {
	s := strings.TrimSpace(p.c.String(name))
	if p.absent(name, s) {
		return 0
	}
	v, err := strconv.ParseFloat(s, 64)
	if err != nil || math.IsNaN(v) || v <= 0 || v > 1 {
		p.fail(usagef("--%s %q: want a fraction above 0, at most 1", name, s))
	}
	return v
}

// file reads the file that a flag names; empty where it names none.
func (p *parser) file(flag string) string {
	path := p.name(flag)
	if path == "" {
		return ""
	}
	text, err := os.ReadFile(path)
	if err != nil {
		p.fail(usagef("--%s: %v", flag, err))
	}
	return string(text)
}

// picture reads the name of a picture's file; "" where there is none.
func (p *parser) picture(name string) string {
	s := p.name(name)
	if l := strings.ToLower(s); s != "" && !strings.HasSuffix(l, ".png") && !strings.HasSuffix(l, ".svg") {
		p.fail(usagef("--%s %q: want a name that ends in .png or .svg", name, s))
	}
	return s
}

// writable is picture, whose folder has to be there before anything is computed.
func (p *parser) writable(flag string) string { return p.inFolder(flag, p.picture(flag)) }

// inFolder is a file to write: its folder has to be there, and it is none itself.
func (p *parser) inFolder(flag, file string) string {
	if file == "" {
		return ""
	}
	if at, err := os.Stat(filepath.Dir(file)); err != nil || !at.IsDir() {
		p.fail(usagef("--%s %q: there is no folder %s", flag, file, filepath.Dir(file)).hint("make it first, or name a file in another folder"))
	}
	if at, err := os.Stat(file); err == nil && at.IsDir() {
		p.fail(usagef("--%s %q: it is a folder", flag, file).hint("name a file, in that folder or elsewhere"))
	}
	return file
}

// kvDType reads the storage of the KV cache; empty where the engine decides.
func (p *parser) kvDType() engine.DType {
	if p.absent("kv-dtype", p.c.String("kv-dtype")) {
		return ""
	}
	return engine.DType(p.choice("kv-dtype", string(engine.BF16), string(engine.FP8)))
}

// choice reads one of some words.
func (p *parser) choice(name string, words ...string) string {
	s := p.c.String(name)
	for _, w := range words {
		if s == w {
			return s
		}
	}
	e := usagef("--%s %q: want %s", name, s, orList(words))
	if n := nearest(s, words); n != "" && s != "" {
		e = e.hint("did you mean %s?", n)
	}
	p.fail(e)
	return words[0]
}

func orList(words []string) string {
	if len(words) == 1 {
		return words[0]
	}
	return strings.Join(words[:len(words)-1], ", ") + " or " + words[len(words)-1]
}

// sizes reads a list of tensor-parallel sizes.
func (p *parser) sizes(name string) []int {
	s := p.c.String(name)
	if p.absent(name, s) {
		return nil
	}
	var ns []int
	for f := range strings.SplitSeq(s, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(f))
		if err != nil || n < 1 || n > maxGPUs {
			p.fail(usagef("--%s %q: want whole numbers from 1 to %d, separated by commas", name, s, maxGPUs))
			return nil
		}
		if slices.Contains(ns, n) {
			p.fail(usagef("--%s %q: %d is there twice", name, s, n))
			return nil
		}
		ns = append(ns, n)
	}
	return ns
}

// layouts reads --tp or --parallelism; nil where neither is given.
func (p *parser) layouts() []engine.Parallelism {
	var out []engine.Parallelism
	for _, n := range p.sizes("tp") {
		out = append(out, engine.TP(n))
	}
	s := p.c.String("parallelism")
	if p.absent("parallelism", s) {
		return out
	}
	if len(out) > 0 {
		p.fail(usagef("--tp and --parallelism exclude each other").hint("--parallelism takes plain sizes too, as TP:4"))
	}
	for f := range strings.SplitSeq(s, ",") {
		l, err := engine.ParseParallelism(strings.Trim(strings.TrimSpace(f), `"'`))
		if err == nil && slices.Contains(out, l) {
			err = fmt.Errorf("%s is there twice", l.Label())
		}
		if err != nil {
			p.fail(usagef("--parallelism: %v", err))
			return nil
		}
		out = append(out, l)
	}
	return out
}

// layout reads --parallelism, or --tp where there is none.
func (p *parser) layout() engine.Parallelism {
	if !p.c.IsSet("parallelism") {
		return engine.TP(p.integer("tp", 1, maxGPUs, 1))
	}
	if p.c.IsSet("tp") {
		p.fail(usagef("--tp and --parallelism exclude each other"))
	}
	l, err := engine.ParseParallelism(p.c.String("parallelism"))
	if err != nil {
		p.fail(usagef("--parallelism: %v", err))
	}
	return l
}

// headers reads "Name: value" lines; the environment may hold several.
func (p *parser) headers(name string) []load.Header {
	var hs []load.Header
	for _, s := range p.c.StringSlice(name) {
		for line := range strings.Lines(s) {
			h, err := load.ParseHeader(strings.TrimSpace(line))
			if err != nil {
				p.fail(usagef("--%s: %v", name, err)) // the error names no value
				continue
			}
			hs = append(hs, h)
		}
	}
	return hs
}

// typed are a flag's values as somebody would type them: several where it may be
// repeated.
func typed(c *cli.Context, name string) []string {
	value := c.Value(name)
	if many, ok := value.(cli.StringSlice); ok { // which prints as the library's own fields
		return many.Value()
	}
	return []string{fmt.Sprint(value)}
}
