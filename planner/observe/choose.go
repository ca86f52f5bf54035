package observe

import (
	"fmt"
	"slices"
	"strings"

	"github.com/prometheus/common/model"

	"plimsoll/engine"
)

// series are labels, the name among them, as __name__.
type series []model.Metric

// choice is which of the series there are say what.
type choice struct {
	names   Names
	labels  labels   // that they all have
	caveats []string // what they have beside what was looked for
	twice   bool     // they count each request once for each phase
}

// twiceWords say so, and what to do.
const twiceWords = "the router of Dynamo counts each request as prefill and again as decode: let dynamo_frontend_* be scraped, at the frontend"

// wish is what choose looks for: as Wanted, in series that are known already.
type wish struct {
	server           string // for errors
	presets          []Names
	model, namespace string
	anyCase          bool // of the model, as a frontend that has it in lower case knows it
}

// choose takes the first preset with requests of the model; ok is false where
// there is none, and there are the models with requests. Several models, where
// none is named, are an *AmbiguousError.
func (w wish) choose(all series) (c choice, there []string, err error) {
	for _, n := range w.presets {
		c, models, err := w.try(n, n.Namespace, all, n.requestNames())
		if err != nil || c.names.Preset != "" {
			return c, nil, err
		}
		there = append(there, models...)
	}
	slices.Sort(there)
	return choice{}, slices.Compact(there), nil
}

// engines takes the first preset by which engines speak for themselves. Behind a
// frontend they may have its label for the namespace.
func (w wish) engines(all series, frontend Names) (choice, error) {
	for _, n := range w.presets {
		if !n.PerEngine {
			continue
		}
		for _, label := range slices.Compact([]string{n.Namespace, frontend.Namespace}) {
			c, _, err := w.try(n, label, all, slices.Concat(n.Running, n.Waiting, n.KVUse, n.Finished))
			if err != nil || c.names.Preset != "" {
				return c, err
			}
		}
	}
	return choice{}, nil
}

// try is a preset where it has series by some of these names, of the model and in
// the namespace; the zero value where it has none.
func (w wish) try(n Names, namespace string, all series, by []string) (choice, []string, error) {
	l := labels{}.with(n.Only)
	var unlabelled []string
	if w.namespace != "" && namespace != "" {
		l[namespace] = w.namespace
		// A frontend may not say its namespace; what is behind it would count otherwise.
		if !n.PerEngine && len(all.values(namespace, nil, by)) == 0 {
			delete(l, namespace)
			unlabelled = append(unlabelled, fmt.Sprintf("the %s metrics have no label %s, so requests of all namespaces count, not only of %q", n.Preset, namespace, w.namespace))
		}
	}
	models := all.values(n.Model, l, by)
	mine := slices.DeleteFunc(slices.Clone(models), func(m string) bool { return !w.wants(n, m) })
	switch {
	case n.Model == "":
	case w.model != "" && len(mine) == 0:
		return choice{}, models, nil
	case len(mine) > 1:
		return choice{}, nil, &AmbiguousError{Server: w.server, Models: mine}
	case len(mine) == 1:
		l[n.Model] = mine[0]
	}
	has := all.values(model.MetricNameLabel, l, n.all())
	if !slices.ContainsFunc(by, func(name string) bool { return slices.Contains(has, name) }) {
		return choice{}, models, nil
	}
	return choice{
		names: n.having(has), labels: l, caveats: append(unlabelled, w.caveats(n, namespace, all, l, by)...),
		twice: slices.Contains(all.values(n.Phase, l, n.all()), string(engine.RolePrefill)),
	}, models, nil
}

// wants reports whether a model is the one that is looked for.
func (w wish) wants(n Names, name string) bool {
	return w.model == "" || name == w.model ||
		n.LowerCase && name == strings.ToLower(w.model) || w.anyCase && strings.EqualFold(name, w.model)
}

// caveats say what more than what was looked for is in the series.
func (w wish) caveats(n Names, namespace string, all series, l labels, by []string) []string {
	var out []string
	if w.model != "" && n.Model == "" {
		out = append(out, fmt.Sprintf("the %s metrics have no model label, so requests of all models count, not only of %q", n.Preset, w.model))
	}
	if n.Lacks != "" {
		out = append(out, "no number of running or waiting requests: "+n.Lacks+". Requests are counted as they end: while engines are full, more arrive")
	}
	if several := all.values(namespace, l, by); len(several) > 1 {
		out = append(out, fmt.Sprintf("requests of %d namespaces are added up: %q", len(several), several))
	}
	return out
}

// values are those of a label, sorted, over series with one of the names.
func (all series) values(label string, l labels, names []string) []string {
	var out []string
	for _, s := range all {
		if v := s[model.LabelName(label)]; label != "" && v != "" && slices.Contains(names, string(s[model.MetricNameLabel])) && l.match(s) {
			out = append(out, string(v))
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// match reports whether a series has the labels. A label that it lacks is empty.
func (l labels) match(s model.Metric) bool {
	for name, value := range l {
		if string(s[model.LabelName(name)]) != value {
			return false
		}
	}
	return true
}

// perEngine are the presets by which engines speak for themselves; where none are,
// those of auto.
func perEngine(presets []Names) []Names {
	engines := func(presets []Names) []Names {
		return slices.DeleteFunc(slices.Clone(presets), func(n Names) bool { return !n.PerEngine })
	}
	if own := engines(presets); len(own) > 0 {
		return own
	}
	return engines(Presets("auto"))
}

func presetWords(presets []Names) []string {
	out := make([]string, len(presets))
	for i, n := range presets {
		out[i] = n.Preset
	}
	return slices.Compact(out)
}
