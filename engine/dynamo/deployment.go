package dynamo

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"plimsoll/engine"
	"plimsoll/engine/argv"
)

// served is one service of a DynamoGraphDeployment whose container runs an engine.
type served struct {
	name    string
	kind    engine.Kind
	words   []string // its arguments
	prefill bool
}

// readDeployment reads a DynamoGraphDeployment: spec.services by name (v1alpha1), or
// the list spec.components (v1beta1).
func readDeployment(doc mapping) (Worker, error) {
	var workers []served
	add := func(name, role string, container mapping) error {
		s, ok, err := service(name, role, container)
		if ok {
			workers = append(workers, s)
		}
		return err
	}
	services := doc.at("spec", "services")
	for _, kv := range services {
		name := fmt.Sprint(kv.Key)
		s := services.at(name)
		if err := add(name, s.text("subComponentType"), s.at("extraPodSpec", "mainContainer")); err != nil {
			return Worker{}, err
		}
	}
	for _, c := range doc.at("spec").mappings("components") {
		for _, container := range c.at("podTemplate", "spec").mappings("containers") {
			if err := add(c.text("name"), c.text("type"), container); err != nil {
				return Worker{}, err
			}
		}
	}
	return chosen(workers)
}

// chosen is the worker that is not for prefill alone.
func chosen(workers []served) (Worker, error) {
	var prefill []served
	var others []served
	var names []string
	for _, s := range workers {
		if s.prefill {
			prefill = append(prefill, s)
			continue
		}
		others, names = append(others, s), append(names, s.name)
	}
	switch {
	case len(others) == 0:
		return Worker{}, errors.New("no container of it runs dynamo.vllm, dynamo.sglang or dynamo.trtllm for decode")
	case len(others) > 1:
		return Worker{}, fmt.Errorf("it has several workers, %s: want the one that is to be profiled, with its prefill worker", strings.Join(names, ", "))
	}
	s := others[0]
	w := newWorker(s.kind, s.words)
	if w.Model == "" {
		return Worker{}, fmt.Errorf("the arguments of %s name no model", s.name)
	}
	var beside []string
	for _, p := range prefill {
		beside = append(beside, p.words...)
	}
	return w.beside(beside), nil
}

// service is what a container runs; false where that is no engine of Dynamo's. Its
// command may be one line for a shell.
func service(name, role string, container mapping) (s served, ok bool, err error) {
	words := append(container.words("command"), container.words("args")...)
	if i := slices.IndexFunc(words, func(w string) bool { return strings.Contains(w, " dynamo.") }); i >= 0 {
		if words, err = split(words[i]); err != nil {
			return s, false, fmt.Errorf("the command of %s: %w", name, err)
		}
		if end := slices.IndexFunc(words, isOperator); end >= 0 && slices.ContainsFunc(words[:end], isBackend) {
			words = words[:end]
		}
	}
	i := slices.IndexFunc(words, isBackend)
	if i < 0 {
		return s, false, nil
	}
	s = served{name: name, kind: backend(words[i]), words: words[i+1:]}
	s.prefill = role == "prefill" || slices.ContainsFunc(argv.Table{}.Arguments(s.words), func(a argv.Argument) bool {
		return same(a.Name, "--is-prefill-worker") || same(a.Name, "--disaggregation-mode") && a.Value() == "prefill"
	})
	return s, true, nil
}

// backend is the engine of a Python module of Dynamo's; empty for any other word.
func backend(word string) engine.Kind {
	module, ok := strings.CutPrefix(word, "dynamo.")
	name, _, _ := strings.Cut(module, ".")
	kind := engine.Kind(name)
	if ok && slices.Contains([]engine.Kind{engine.KindVLLM, engine.KindSGLang, engine.KindTRTLLM}, kind) {
		return kind
	}
	return ""
}

func isBackend(word string) bool { return backend(word) != "" }

// split cuts a line for a shell into words; what a shell would put in for a variable
// stays as it is.
func split(line string) (words []string, err error) {
	var word strings.Builder
	quote, inWord, escaped := rune(0), false, false
	for _, c := range line + " " {
		switch {
		case escaped:
			escaped = false
			if c != '\n' {
				word.WriteRune(c)
				inWord = true
			}
		case c == '\\' && quote != '\'':
			escaped = true
		case c == quote && quote != 0:
			quote = 0
		case quote != 0:
			word.WriteRune(c)
		case c == '\'' || c == '"':
			quote, inWord = c, true
		case !strings.ContainsRune(" \t\r\n", c):
			word.WriteRune(c)
			inWord = true
		case inWord:
			words = append(words, word.String())
			word.Reset()
			inWord = false
		}
	}
	if quote != 0 {
		return nil, fmt.Errorf("a %c is not closed", quote)
	}
	return words, nil
}

// isOperator reports whether a word ends a command in a shell.
func isOperator(word string) bool {
	return strings.ContainsAny(word[:min(1, len(word))], "|&;>") || strings.HasPrefix(word, "2>")
}
