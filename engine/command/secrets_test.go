package command_test

import (
	"slices"
	"strings"
	"testing"

	"plimsoll/engine/command"
)

// A template is shown without its credentials, quoted as they may be, and its errors
// do not repeat them.
func TestTemplateHidesItsCredentials(t *testing.T) {
	template := command.Template{
		Argv: `env HF_TOKEN="Conf1dential 1" srv -p {{.Port}} --api-key 'Conf1dential'\''2' --x '{"token": "Conf1dential3"}' {{if .Model}}--token Conf1dential4{{end}} --tp {{.TP}}`,
		Env:  []string{"MY_KEY=Conf1dential5", "PLAIN=x"},
	}
	if shown := template.String(); strings.Contains(shown, "Conf1dential") || !strings.HasSuffix(shown, "{{end}} --tp {{.TP}}") || !strings.HasPrefix(shown, `env HF_TOKEN="[redacted]" srv -p {{.Port}} --api-key `) {
		t.Error(shown)
	}
	found := template.Secrets()
	for _, want := range []string{"Conf1dential 1", "Conf1dential'2", "Conf1dential3", "Conf1dential4", "Conf1dential5"} {
		if !slices.Contains(found, want) {
			t.Errorf("%q lacks %q", found, want)
		}
	}
	for _, bad := range []string{"srv --api-key Conf1dential", "srv --api-key 'Conf1dential", "TOKEN=Conf1dential srv {{.Port}}", "srv {{.No}} --token=Conf1dential", "srv {{.Port}} --token=Conf1dential | tee"} {
		if err := (command.Template{Argv: bad}).Validate(); err == nil || strings.Contains(err.Error(), "Conf1dential") {
			t.Errorf("%s: %v", bad, err)
		}
	}
	if err := (command.Template{Argv: "srv {{.Port}}", Env: []string{"token: Conf1dential"}}).Validate(); err == nil || strings.Contains(err.Error(), "Conf1dential") {
		t.Error(err)
	}
}
