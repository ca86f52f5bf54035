package command_test

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"plimsoll/engine"
	"plimsoll/engine/command"
	"plimsoll/engine/enginetest"
)

var cfg = engine.Config{
	Kind: engine.KindCommand, Model: "meta-llama/Llama-3.1-8B", Role: engine.RoleDecode,
	Parallelism: engine.TP(4), PrefixCaching: true, Limits: engine.Limits{MaxNumSeqs: 64, MaxModelLen: 4096},
}

var launch = engine.Launch{Port: 8123, GPUs: []string{"0", "1", "2", "3"}, LogPath: "logs/a.log"}

func TestArgv(t *testing.T) {
	for _, c := range []struct {
		argv string
		want string // joined by |
	}{
		{"e {{.Port}}", "e|8123"},
		{"e --tp={{.TP}} -p {{.Port}} --gpus {{.GPUs}}", "e|--tp=4|-p|8123|--gpus|0,1,2,3"},
		{"e {{.Port}} {{if .PrefixCaching}}--cache{{end}} {{if not .PrefixCaching}}--no-cache{{end}} x", "e|8123|--cache|x"},
		{"e {{.Port}}{{if .MaxNumSeqs}} --seqs {{.MaxNumSeqs}}{{end}}{{if .BlockSize}} --block {{.BlockSize}}{{end}}", "e|8123|--seqs|64"},
		{"e {{ .Port }} {{- \" x\" -}} y", "e|8123 xy"},
		{"e {{.Port}} -c {{mul .MaxModelLen .MaxNumSeqs}}", "e|8123|-c|262144"},
		{`e {{.Port}} "" '' {{""}} "{{""}}" z`, "e|8123||||z"},
		{`e {{.Port}} 'a  b' "c \"d\" \x" \ e\'f`, `e|8123|a  b|c "d" \x| e'f`},
		{`e {{.Port}} --json '{"a": {"b": 1}}' "{\"c\": {{.TP}}}"`, `e|8123|--json|{"a": {"b": 1}}|{"c": 4}`},
		{"e {{.Port}} \\\n  --next\t'x\ny'", "e|8123|--next|x\ny"},
		{`e {{.Port}} '$HOME' \$HOME "\$HOME" cost$ 5$`, "e|8123|$HOME|$HOME|$HOME|cost$|5$"},
		{"e {{.Port}} '|' a|b \">\" {{\">\"}}", "e|8123|||a|b|>|>"},
		{`e {{.Port}} {{$p := .Port}}{{with $p}}{{.}}{{end}} {{$.TP}} {{.PP}}{{.DP}}{{.EP}} {{.Role}}`, "e|8123|8123|4|111|decode"},
		{"e {{.Port}} {{/* a note */}} {{`}}`}} {{\"}} {{\"}}", "e|8123|}}|}} {{"},
		{"e {{.Port}} {{.Model | printf \"%s@x\"}}", "e|8123|meta-llama/Llama-3.1-8B@x"},
		{"e {{.Port}} {{define \"m\"}}--model {{.Model}}{{end}}{{template \"m\" .}}", "e|8123|--model|meta-llama/Llama-3.1-8B"},
		{"ü {{.Port}} schön", "ü|8123|schön"},
	} {
		t.Run(c.argv, func(t *testing.T) {
			s, err := command.Template{Argv: c.argv}.Spec(cfg, launch)
			if err != nil {
				t.Fatal(err)
			}
			if got := strings.Join(s.Argv, "|"); got != c.want {
				t.Errorf("got  %q\nwant %q", got, c.want)
			}
		})
	}
}

func TestSpec(t *testing.T) {
	tm := command.Template{
		Argv: "engine --port {{.Port}}", Env: []string{"MODEL={{.Model}} x", `RAW="$HOME"`, "EMPTY="},
		ReadyPath: "/ready", ReadyTimeout: time.Minute, Grace: time.Second,
	}
	got, err := tm.Spec(cfg, launch)
	if err != nil {
		t.Fatal(err)
	}
	want := engine.Spec{
		Name: "decode tp4", Argv: []string{"engine", "--port", "8123"},
		Env:  []string{"MODEL=meta-llama/Llama-3.1-8B x", `RAW="$HOME"`, "EMPTY="},
		Port: 8123, GPUs: launch.GPUs, ReadyPath: "/ready", ReadyTimeout: time.Minute, Grace: time.Second, LogPath: "logs/a.log",
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

func TestRefuses(t *testing.T) {
	for _, c := range []struct{ argv, want string }{
		{"", "no {{.Port}}"},
		{"vllm serve m", "no {{.Port}}"},
		{"e {{.Port}} {{.Tp}}", "unknown field {{.Tp}}: the known fields are {{.TP}}"},
		{"e {{.Port}} {{if .Nonsense}}{{end}}", "unknown field {{.Nonsense}}"},
		{"e {{.Port}} {{if false}}{{.Nonsense}}{{end}}", "unknown field {{.Nonsense}}"},
		{"e {{.Port}} {{if (eq .Nonsense 1)}}x{{end}}", "unknown field {{.Nonsense}}"},
		{"e {{.Port}} {{$.Nonsense}}", "unknown field {{.Nonsense}}"},
		{"e {{.Port}} {{define \"x\"}}{{.Nonsense}}{{end}}", "unknown field {{.Nonsense}}"},
		{"e {{.Port.Number}}", "unknown field {{.Port.Number}}"},
		{"e {{(.Port).Number}}", "a value has no fields"},
		{"e {{.Port}} {{TP}}", "function \"TP\" not defined"},
		{"e {{.Port}} {{.TP", "unclosed action"},
		{"e {{.Port}} {{if .TP}}", "unexpected EOF"},
		{"e {{.Port}} {{mul .Model 2}}", "mul"},
		{"e {{.Port}} 'a", "a ' is not closed"},
		{"e {{.Port}} \"a", "a \" is not closed"},
		{"e {{.Port}} a\\", "ends with a backslash"},
		{"e {{.Port}} $HOME/x", `"$HOME/x" needs a shell`},
		{"e {{.Port}} \"${HOME}\"", "needs a shell"},
		{"e {{.Port}} `date`", "needs a shell"},
		{"e {{.Port}} ~/model", "full path"},
		{"e {{.Port}} > log", `">" needs a shell`},
		{"e {{.Port}} 2>&1", `"2>&1" needs a shell`},
		{"e {{.Port}} && f", `"&&" needs a shell`},
		{"e {{.Port}} | f", `"|" needs a shell`},
		{"A=1 e {{.Port}}", "write env A=1"},
		{"{{if false}}{{.Port}}{{end}}", "names no program"},
		{"{{if .PrefixCaching}}e{{end}}{{if false}}{{.Port}}{{end}}", "names no program"},
		{"'' {{.Port}}", "names no program"},
		{"e {{.Port}} \x00", "zero byte"},
		{"e {{.Port}} {{\"\\x00\"}}", "zero byte"},
	} {
		t.Run(c.argv, func(t *testing.T) {
			err := command.Template{Argv: c.argv}.Validate()
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want it to say %q", err, c.want)
			}
			if _, err := (command.Template{Argv: c.argv}).Spec(cfg, launch); err == nil {
				t.Error("Spec accepts it")
			}
		})
	}
	for name, tm := range map[string]command.Template{
		"want KEY=value":           {Argv: "e {{.Port}}", Env: []string{"nonsense"}},
		"setting A: unknown field": {Argv: "e {{.Port}}", Env: []string{"A={{.B}}"}},
		"begins with /":            {Argv: "e {{.Port}}", ReadyPath: "health"},
		"cannot be negative":       {Argv: "e {{.Port}}", Grace: -1},
		"time-outs cannot be":      {Argv: "e {{.Port}}", ReadyTimeout: -1},
	} {
		if err := tm.Validate(); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("got %v, want it to say %q", err, name)
		}
	}
	for _, port := range []int{0, -1, 65536} {
		if _, err := (command.Template{Argv: "e {{.Port}}"}).Spec(cfg, engine.Launch{Port: port}); err == nil {
			t.Errorf("port %d is accepted", port)
		}
	}
}

func TestUses(t *testing.T) {
	tm := command.Template{Argv: "e {{.Port}} {{if .PrefixCaching}}x{{end}}", Env: []string{"T={{.TP}}"}}
	for field, want := range map[string]bool{"Port": true, "PrefixCaching": true, "TP": true, "Model": false, "": false} {
		if got := tm.Uses(field); got != want {
			t.Errorf("Uses(%q) = %v", field, got)
		}
	}
}

func TestFields(t *testing.T) {
	for _, f := range command.Fields() {
		if err := (command.Template{Argv: "e {{.Port}} {{." + f + "}}"}).Validate(); err != nil {
			t.Error(err)
		}
	}
}

func TestName(t *testing.T) {
	tm := command.Template{Argv: "e {{.Port}} --name {{.Name}}", Env: []string{"WATCHER={{.Name}}"}}
	s, err := tm.Spec(cfg, engine.Launch{Port: 8123, Name: "dynamo Worker_1"})
	if err != nil || !slices.Equal(s.Argv, []string{"e", "8123", "--name", "dynamo Worker_1"}) || !slices.Equal(s.Env, []string{"WATCHER=dynamo Worker_1"}) {
		t.Errorf("%q, %q, %v", s.Argv, s.Env, err)
	}
}

// Whatever a model is called, it is one argument.
func TestValuesStayWhole(t *testing.T) {
	enginetest.Check(t, func(t *rapid.T) {
		c := cfg
		c.Model = strings.ReplaceAll(rapid.StringOf(rapid.OneOf(rapid.SampledFrom([]rune("'\"\\ \t\n$`|&;<>*~{}#")), rapid.Rune())).Draw(t, "model"), "\x00", "")
		tm := command.Template{Argv: `e {{.Model}}. "{{.Model}}" '{{.Model}}' "a{{.Model}}b" \{{.Model}}. {{.Port}}`}
		s, err := tm.Spec(c, launch)
		if err != nil {
			t.Fatal(err)
		}
		want := []string{"e", c.Model + ".", c.Model, c.Model, "a" + c.Model + "b", c.Model + ".", "8123"}
		if !slices.Equal(s.Argv, want) {
			t.Fatalf("got %q, want %q", s.Argv, want)
		}
	})
}

func FuzzTemplate(f *testing.F) {
	f.Add("e {{.Port}} 'a' \"b\" \\c", "m")
	f.Add("e {{.Model}} --port {{.Port}} {{if .PrefixCaching}}--cache{{else}}--no-cache{{end}} {{if gt .PP 1}}-p {{.PP}}{{end}}", "a b")
	f.Add("{{define \"x\"}}{{.}}{{end}}{{template \"x\" .Port}}", "")
	f.Fuzz(func(t *testing.T, argv, model string) {
		if strings.Contains(argv, "range") || strings.Contains(argv, "template") || strings.Contains(argv, "block") {
			t.Skip("could run for long") // which harms only who writes it
		}
		tm := command.Template{Argv: argv}
		c := cfg
		c.Model = model
		s, err := tm.Spec(c, launch)
		if err == nil && (len(s.Argv) == 0 || s.Argv[0] == "") {
			t.Fatalf("%q gives %q", argv, s.Argv)
		}
		if err == nil && tm.Validate() != nil {
			t.Fatal("Spec accepts what Validate refuses")
		}
	})
}
