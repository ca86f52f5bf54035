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

	"plimsoll/capacity/prices"
	"plimsoll/engine"
	"plimsoll/engine/catalog"
	"plimsoll/engine/field"
	"plimsoll/profile/load"
)

// parser collects the first complaint, so that parsing reads as a list.
type parser struct {
	c   *cli.Context
	err error
}

// fail takes a complaint; nil is none.
func (p *parser) fail(err *field.Error) {
	if p.err == nil && err != nil {
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
			p.fail(field.Errorf("--%s works only %s", name, only))
		}
	}
}

// name reads a text that is not empty; "" where there is none.
func (p *parser) name(flag string) string {
	s := strings.TrimSpace(p.c.String(flag))
	if s == "" && p.c.IsSet(flag) {
		p.fail(field.Errorf("--%s %q: want a name, or no such flag", flag, p.c.String(flag)))
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
		p.fail(field.Errorf("--%s %q: want a whole number from %d to %d", name, s, lo, hi))
		return absent
	}
	return n
}

// parseTime reads a time with its unit, such as 1s or 2m30s, or a plain number of
// the unit that a flag has of its own.
func parseTime(text string, unit time.Duration) (time.Duration, error) {
	text = strings.TrimSpace(text)
	v, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return time.ParseDuration(text)
	}
	if v = math.Round(v * float64(unit)); !(math.Abs(v) < 1<<62) { // NaN too
		return 0, fmt.Errorf("%q is no time", text)
	}
	return time.Duration(v), nil
}

// millis reads a latency: milliseconds, or a time with its unit.
func (p *parser) millis(name string) time.Duration {
	s := p.c.String(name)
	d, err := parseTime(s, time.Millisecond)
	if err != nil || d < leastMillis*1e6 || d > maxMillis*time.Millisecond {
		p.fail(field.Errorf("--%s %q: want milliseconds from %g to %d, or a time such as 1s", name, s, leastMillis, maxMillis))
		return 0
	}
	return d
}

// optionalMillis reads milliseconds where they are given; 0 where not.
func (p *parser) optionalMillis(name string) time.Duration {
	if p.absent(name, strings.TrimSpace(p.c.String(name))) {
		return 0
	}
	return p.millis(name)
}

// required complains of all names without a value at once, and hints, if there is a hint.
func (p *parser) required(hint string, names ...string) {
	var lacking []string
	for _, name := range names {
		if p.name(name) == "" {
			lacking = append(lacking, "--"+name)
		}
	}
	if len(lacking) == 0 || p.err != nil {
		return
	}
	e := field.Errorf("%s", areMissing(lacking))
	if hint != "" {
		e = e.Hint("%s", hint)
	}
	p.fail(e)
}

// areMissing says that these flags are missing.
func areMissing(flags []string) string {
	if len(flags) == 1 {
		return flags[0] + " is missing"
	}
	return listed("and", flags) + " are missing"
}

// listed is "a, b and c", or with another word before the last.
func listed(last string, words []string) string {
	n := len(words) - 1
	if n == 0 {
		return words[0]
	}
	return strings.Join(words[:n], ", ") + " " + last + " " + words[n]
}

// outputTokens reads the output length: an ITL lies between two tokens.
func (p *parser) outputTokens(name string) int {
	if strings.TrimSpace(p.c.String(name)) == "1" {
		p.fail(field.Errorf("--%s 1: one output token has no inter-token latency: want at least 2", name))
	}
	return p.integer(name, 1, maxTokens, 0)
}

// duration reads a positive time, a plain number in milliseconds; 0 where there is none.
func (p *parser) duration(name string) time.Duration {
	s := strings.TrimSpace(p.c.String(name))
	if p.absent(name, s) {
		return 0
	}
	d, err := parseTime(s, time.Millisecond)
	if err != nil || d <= 0 {
		p.fail(field.Errorf("--%s %q: want a time above 0, such as 90s, 30m or 2h, or milliseconds", name, s))
		return 0
	}
	return d
}

// upTo reads a time from 0 to most, a plain number in milliseconds.
func (p *parser) upTo(name string, most time.Duration) time.Duration {
	d, err := parseTime(p.c.String(name), time.Millisecond)
	if err != nil || d < 0 || d > most {
		p.fail(field.Errorf("--%s %q: want a time from 0s to %s, such as 15s or 2m, or milliseconds", name, p.c.String(name), short(most)))
		return 0
	}
	return d
}

// number reads a decimal in [lo, hi].
func (p *parser) number(name string, lo, hi float64) float64 {
	s := strings.TrimSpace(p.c.String(name))
	v, err := strconv.ParseFloat(s, 64)
	if err != nil || !(v >= lo && v <= hi) { // so that NaN is refused
		p.fail(field.Errorf("--%s %q: want a number from %g to %g", name, s, lo, hi))
		return lo
	}
	return v
}

// gpuPrices reads --cost-per-gpu-hour: one price of every GPU, or some by name.
func (p *parser) gpuPrices() prices.Given {
	text := p.name("cost-per-gpu-hour")
	if text == "" || p.err != nil {
		return prices.Given{}
	}
	cat, err := catalog.Load(p.c.String("catalog"))
	if err != nil {
		p.err = err
		return prices.Given{}
	}
	g, err := prices.ParseGiven(text, func(name string) (string, error) {
		gpu, err := cat.GPU(name)
		return gpu.Name, err
	})
	if err != nil {
		p.fail(field.Errorf("--cost-per-gpu-hour %v", err))
	}
	return g
}

const perNodeUsage = "GPUs of one server, `N`; a larger engine is on several (default: the GPU's in the catalog, mostly 8)"

// perNode reads how many GPUs one server has; 0 = as the catalog says.
func (p *parser) perNode() int { return p.integer("gpus-per-node", 1, catalog.MostPerNode, 0) }

// fraction reads a part of a whole that may be nothing, and not all.
func (p *parser) fraction(name string) float64 {
	s := p.c.String(name)
	text, percent := strings.CutSuffix(strings.TrimSpace(s), "%")
	v, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
	if percent {
		v /= 100
	}
	if err != nil || math.IsNaN(v) || v < 0 || v >= 1 {
		p.fail(field.Errorf("--%s %q: want a fraction from 0 to below 1, or a percentage such as 1%%", name, s))
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
		p.fail(field.Errorf("--%s %q: want a fraction above 0, at most 1", name, s))
	}
	return v
}

// picture reads the name of a picture's file; "" where there is none.
func (p *parser) picture(name string) string {
	s := p.name(name)
	if l := strings.ToLower(s); s != "" && !strings.HasSuffix(l, ".png") && !strings.HasSuffix(l, ".svg") {
		p.fail(field.Errorf("--%s %q: want a name that ends in .png or .svg", name, s))
	}
	return s
}

// writable is picture, whose folder has to be there before anything is computed.
func (p *parser) writable(flag string) string {
	file := p.picture(flag)
	if file == "" {
		return ""
	}
	if at, err := os.Stat(filepath.Dir(file)); err != nil || !at.IsDir() {
		p.fail(field.Errorf("--%s %q: there is no folder %s", flag, file, filepath.Dir(file)).Hint("make it first, or name a file in another folder"))
	}
	if at, err := os.Stat(file); err == nil && at.IsDir() {
		p.fail(field.Errorf("--%s %q: it is a folder", flag, file).Hint("name a file, in that folder or elsewhere"))
	}
	return file
}

// kvDType reads the storage of the KV cache; empty where the engine decides.
func (p *parser) kvDType() engine.DType {
	if p.absent("kv-dtype", p.c.String("kv-dtype")) {
		return ""
	}
	return engine.DType(p.choice("kv-dtype", kvTypes...))
}

// choice reads one of some words.
func (p *parser) choice(name string, words ...string) string {
	s := p.c.String(name)
	if slices.Contains(words, s) {
		return s
	}
	p.fail(meant(field.Errorf("--%s %q: want %s", name, s, orList(words)), s, words))
	return words[0]
}

// meant hints at the word that one may stand for, if there is one.
func meant(e *field.Error, word string, words []string) *field.Error {
	if n := nearest(word, words); n != "" && word != "" {
		return e.Hint("did you mean %s?", n)
	}
	return e
}

func orList(words []string) string { return listed("or", words) }

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
			p.fail(field.Errorf("--%s %q: want whole numbers from 1 to %d, separated by commas", name, s, maxGPUs))
			return nil
		}
		if slices.Contains(ns, n) {
			p.fail(field.Errorf("--%s %q: %d is listed twice", name, s, n))
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
		p.fail(field.Errorf("--tp and --parallelism exclude each other").Hint("--parallelism takes plain sizes too, as TP:4"))
	}
	for f := range strings.SplitSeq(s, ",") {
		l, err := engine.ParseParallelism(strings.Trim(strings.TrimSpace(f), `"'`))
		if err == nil && slices.Contains(out, l) {
			err = fmt.Errorf("%s is listed twice", l.Label())
		}
		if err != nil {
			p.fail(field.Errorf("--parallelism: %v", err))
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
		p.fail(field.Errorf("--tp and --parallelism exclude each other"))
	}
	l, err := engine.ParseParallelism(p.c.String("parallelism"))
	if err != nil {
		p.fail(field.Errorf("--parallelism: %v", err))
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
				p.fail(field.Errorf("--%s: %v", name, err)) // the error names no value
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
