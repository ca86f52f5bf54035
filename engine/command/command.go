// Package command makes an engine.Spec of an engine.Config through an argv
// template, so that any engine with a command line can be driven, and reads the
// KV capacity that the engine prints in its log.
//
// It takes a Config, a Template and what is particular to one Launch; it gives a
// Spec. No shell is involved: a value is never split, however many spaces or
// quotes it has, and what only a shell would understand ($NAME, |, >, &&) is
// refused instead of being handed to the engine literally. It refuses a template
// that does not parse, names an unknown field, or has no {{.Port}}. Everything
// here is pure.
package command

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"plimsoll/engine"
	"plimsoll/engine/redact"
)

// Template is how one engine program is started, whatever the configuration.
type Template struct {
	// Argv is the command line: words as a shell splits them (white space,
	// quotes, backslashes), with text/template actions. The fields are those of
	// Fields; the function mul multiplies integers. A word that comes out empty
	// and was not quoted is dropped, and a block may hold several words:
	//
	//	engine -m {{.Model}} --port {{.Port}} {{if .MaxNumSeqs}}--slots {{.MaxNumSeqs}}{{end}}
	Argv string

	// Env is KEY=value settings whose values may have the same actions; each is
	// one value, without quotes.
	Env []string

	ReadyPath    string        // URL path that answers 2xx when ready; empty: /health
	ReadyTimeout time.Duration // zero: as engine/process decides
	Grace        time.Duration // between TERM and KILL; zero: as engine/process decides

	// KVPattern finds the KV capacity in the log, see ParseKVPattern; nil: the
	// lines of the engines that are known.
	KVPattern *regexp.Regexp
}

// fields is what a template can name. A zero limit means that the engine decides.
type fields struct {
	TP, PP, DP, EP      int
	Host                string // address to listen on
	Port                int
	Model               string
	GPUs                string // device ids, separated by commas
	PrefixCaching       bool
	MaxNumSeqs          int
	MaxNumBatchedTokens int
	MaxModelLen         int
	BlockSize           int
	KV                  string // storage type of the KV cache; empty where none is asked for
	Role                string // aggregated, prefill or decode
	Name                string // of the one worker; empty where it is the only one
}

// Fields is the names that a template can use, as in {{.TP}}.
func Fields() []string {
	return []string{
		"TP", "PP", "DP", "EP", "Host", "Port", "Model", "GPUs", "PrefixCaching",
		"MaxNumSeqs", "MaxNumBatchedTokens", "MaxModelLen", "BlockSize", "KV", "Role", "Name",
	}
}

// Validate finds what can be wrong with t before any engine is started.
func (t Template) Validate() error {
	c, err := compile(t.Argv)
	if err != nil {
		return fmt.Errorf("engine command %q: %w", t, err)
	}
	if !c.uses["Port"] {
		return fmt.Errorf("engine command %q has no {{.Port}}. Add it, such as --port {{.Port}}, as each start chooses a port", t)
	}
	// Blocks are taken or not by their values: try both ends of each.
	for _, f := range samples() {
		argv, err := c.words(f)
		if err == nil {
			err = checkProgram(argv)
		}
		if err != nil {
			return fmt.Errorf("engine command %q: %w", t, err)
		}
		if _, err := expandEnv(t.Env, f); err != nil {
			return fmt.Errorf("engine command: %w", err)
		}
	}
	if t.ReadyPath != "" && !strings.HasPrefix(t.ReadyPath, "/") {
		return fmt.Errorf("engine's readiness path %q: want a path that begins with /, such as /health", t.ReadyPath)
	}
	if t.ReadyTimeout < 0 || t.Grace < 0 {
		return fmt.Errorf("engine command: time-outs cannot be negative: ready %v, grace %v", t.ReadyTimeout, t.Grace)
	}
	return nil
}

// String is t's command line without credentials.
func (t Template) String() string { return redact.Of(t.Secrets()...).Clean(t.Argv) }

// Secrets are the credentials that t's command line and environment hold literally.
func (t Template) Secrets() []string {
	found := redact.Find(t.Env)
	if c, err := compile(t.Argv); err == nil {
		if words, err := c.words(samples()[0]); err == nil {
			return append(found, redact.Find(words)...)
		}
	}
	return append(found, redact.Find([]string{"sh", "-c", t.Argv})...) // it does not split
}

// Uses reports whether t's command line or environment names a field, so that a
// caller can say what a template without {{.TP}} or {{.PrefixCaching}} leaves out.
func (t Template) Uses(field string) bool {
	for _, text := range append([]string{t.Argv}, t.Env...) {
		if c, err := compile(text); err == nil && c.uses[field] {
			return true
		}
	}
	return false
}

// Spec is the process that runs cfg. Its Name is the role and the layout, "decode tp2".
func (t Template) Spec(cfg engine.Config, l engine.Launch) (engine.Spec, error) {
	if err := t.Validate(); err != nil {
		return engine.Spec{}, err
	}
	if l.Port < 1 || l.Port > 65535 {
		return engine.Spec{}, fmt.Errorf("engine command: port %d: want 1 to 65535", l.Port)
	}
	f := fieldsOf(cfg, l)
	c, err := compile(t.Argv)
	if err != nil {
		return engine.Spec{}, err // not after Validate
	}
	argv, err := c.words(f)
	if err == nil {
		err = checkProgram(argv)
	}
	if err != nil {
		return engine.Spec{}, fmt.Errorf("engine command %q: %w", t, err)
	}
	env, err := expandEnv(t.Env, f)
	if err != nil {
		return engine.Spec{}, fmt.Errorf("engine command: %w", err)
	}
	return engine.Spec{
		Name: strings.TrimSpace(string(cfg.Role) + " " + cfg.Slug()),
		Argv: argv, Env: env, Port: l.Port, GPUs: l.GPUs,
		ReadyPath: t.ReadyPath, ReadyTimeout: t.ReadyTimeout, Grace: t.Grace, LogPath: l.LogPath,
	}, nil
}

func fieldsOf(cfg engine.Config, l engine.Launch) fields {
	p := cfg.Parallelism.Normal()
	return fields{
		TP: p.TP, PP: p.PP, DP: p.DP, EP: p.EP,
		Host: "127.0.0.1", Port: l.Port, Model: cfg.Model, GPUs: strings.Join(l.GPUs, ","), PrefixCaching: cfg.PrefixCaching,
		MaxNumSeqs: cfg.Limits.MaxNumSeqs, MaxNumBatchedTokens: cfg.Limits.MaxNumBatchedTokens,
		MaxModelLen: cfg.Limits.MaxModelLen, BlockSize: cfg.Limits.BlockSize,
		KV: string(cfg.KV), Role: string(cfg.Role), Name: l.Name,
	}
}

// samples are two opposite launches.
func samples() []fields {
	full := engine.Config{
		Model: "model", Role: engine.RoleDecode, KV: engine.FP8, PrefixCaching: true,
		Parallelism: engine.Parallelism{TP: 2, PP: 2, DP: 2, EP: 2},
		Limits:      engine.Limits{MaxNumSeqs: 8, MaxNumBatchedTokens: 2048, MaxModelLen: 4096, BlockSize: 16},
	}
	bare := engine.Config{Model: "model", Role: engine.RolePrefill}
	return []fields{
		fieldsOf(full, engine.Launch{Port: 8000, GPUs: []string{"0", "1"}, Name: "worker"}),
		fieldsOf(bare, engine.Launch{Port: 8000}),
	}
}

// checkProgram looks at the first word, which no shell will interpret.
func checkProgram(argv []string) error {
	if len(argv) == 0 || argv[0] == "" {
		return errors.New("it names no program")
	}
	if name, _, ok := strings.Cut(argv[0], "="); ok && isName(name) {
		return fmt.Errorf("it begins with the setting %q, but no shell runs it: write env %[1]s …", redact.Text(argv[0]))
	}
	return nil
}

// isName reports whether s is a name as environment variables have.
func isName(s string) bool {
	for i, r := range s {
		letter := r == '_' || r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z'
		if !letter && (i == 0 || r < '0' || r > '9') {
			return false
		}
	}
	return s != ""
}

func expandEnv(env []string, f fields) ([]string, error) {
	var out []string
	for _, kv := range env {
		name, _, ok := strings.Cut(kv, "=")
		if !ok || !isName(name) {
			return nil, fmt.Errorf("setting %q: want KEY=value", redact.Text(kv))
		}
		c, err := compile(kv)
		if err != nil {
			return nil, fmt.Errorf("setting %s: %w", name, err)
		}
		text, err := c.text(f)
		if err != nil {
			return nil, fmt.Errorf("setting %s: %w", name, err)
		}
		out = append(out, text)
	}
	return out, nil
}
