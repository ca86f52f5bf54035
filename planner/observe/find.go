package observe

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"plimsoll/engine"
	"plimsoll/profile"
)

// missing is a number that nobody gave.
func missing() float64 { return math.NaN() }

// Wanted is what to look for.
type Wanted struct {
	Presets   []Names // the first that has requests of the model is taken
	Model     string  // exactly as the server has it; "" = the only one there
	Namespace string  // exactly; "" = all of them
	From, To  time.Time
}

// History is one model's series on a server, from which Traffic reads what came in
// a range of time.
type History struct {
	Names    Names  // those that there are
	Model    string // "" = the metrics do not say
	Warnings []profile.Warning

	server *Server
	labels labels
}

// Find looks for a model's series. It fails with a *NotFoundError, an
// *AmbiguousError or an *Error.
func (s *Server) Find(ctx context.Context, w Wanted) (History, error) {
	if _, err := s.isVictoria(ctx); err != nil {
		return History{}, err
	}
	var there []string
	for i, n := range w.Presets {
		found, models, err := s.try(ctx, n, w)
		if err != nil {
			return History{}, err
		}
		if found != nil {
			return *found, found.others(ctx, w.Presets[i+1:], w)
		}
		there = append(there, models...)
	}
	return History{}, w.notFound(s, there)
}

// notFound says what was looked for, and the models that there are.
func (w Wanted) notFound(s *Server, there []string) error {
	slices.Sort(there)
	what := "requests"
	if w.Model != "" {
		what += fmt.Sprintf(" of the model %q", w.Model)
	}
	if w.Namespace != "" {
		what += fmt.Sprintf(" in the namespace %q", w.Namespace)
	}
	return &NotFoundError{Server: s.name, What: fmt.Sprintf("%s by the names of %v", what, presetWords(w.Presets)), Kind: "models", There: slices.Compact(there)}
}

// try looks for one preset: nil where it has no requests of the model, and the
// models that it has.
func (s *Server) try(ctx context.Context, n Names, w Wanted) (*History, []string, error) {
	found := History{server: s, labels: labels{}.with(n.Only)}
	if err := found.within(ctx, n, w); err != nil {
		return nil, nil, err
	}
	models, err := s.models(ctx, n, found.labels, w)
	if err != nil {
		return nil, nil, err
	}
	switch {
	case w.Model != "" && n.Model != "":
		if !slices.Contains(models, w.Model) {
			return nil, models, nil
		}
		found.Model = w.Model
	case len(models) > 1:
		return nil, nil, &AmbiguousError{Server: s.name, Models: models}
	case len(models) == 1:
		found.Model = models[0]
	}
	if found.Model != "" {
		found.labels[n.Model] = found.Model
	}
	series, err := s.values(ctx, "__name__", found.labels.anyOf(n.all()), w.From, w.To)
	if err != nil {
		return nil, nil, err
	}
	found.Names = n.having(series)
	if found.Names.requests() == "" {
		return nil, models, nil
	}
	if err := found.once(ctx, n, w); err != nil {
		return nil, nil, err
	}
	if w.Model != "" && n.Model == "" {
		found.warn("no_model_label", "the %s metrics have no model label, so requests of all models count, not only of %q", n.Preset, w.Model)
	}
	return &found, models, found.spread(ctx, n, w)
}

// within keeps to a namespace, unless a frontend does not say its own.
func (h *History) within(ctx context.Context, n Names, w Wanted) error {
	if w.Namespace == "" {
		return nil
	}
	there := []string{w.Namespace}
	if !n.PerEngine {
		var err error
		if there, err = h.server.values(ctx, n.Namespace, h.labels.anyOf(n.requestNames()), w.From, w.To); err != nil {
			return err
		}
	}
	if len(there) > 0 {
		h.labels[n.Namespace] = w.Namespace
	} else {
		h.warn("no_namespace_label", "the %s metrics have no label %s, so requests of all namespaces count, not only of %q", n.Preset, n.Namespace, w.Namespace)
	}
	return nil
}

// once fails where requests are counted once for each phase.
func (h *History) once(ctx context.Context, n Names, w Wanted) error {
	if n.Phase == "" {
		return nil
	}
	phases, err := h.server.values(ctx, n.Phase, h.labels.anyOf(n.all()), w.From, w.To)
	if err == nil && slices.Contains(phases, string(engine.RolePrefill)) {
		return &Error{Server: h.server.name, Asked: h.Names.requests(), Err: errors.New(twiceWords)}
	}
	return err
}

// others warns of requests by other names, where nobody said which model is meant.
func (h *History) others(ctx context.Context, presets []Names, w Wanted) error {
	if w.Model != "" {
		return nil
	}
	for _, n := range presets {
		l := labels{}.with(n.Only)
		if w.Namespace != "" {
			l[n.Namespace] = w.Namespace
		}
		models, err := h.server.models(ctx, n, l, w)
		if err != nil {
			return err
		}
		// Dynamo's frontend has names in lower case.
		if models = slices.DeleteFunc(models, func(m string) bool { return strings.EqualFold(m, h.Model) }); len(models) > 0 {
			h.warn("other_models", "there are also %s metrics, of %q. The %s metrics, of %q, are used", n.Preset, models, h.Names.Preset, h.Model)
		}
	}
	return nil
}

// models are those with requests.
func (s *Server) models(ctx context.Context, n Names, l labels, w Wanted) ([]string, error) {
	if n.Model == "" {
		return nil, nil
	}
	models, err := s.values(ctx, n.Model, l.anyOf(n.requestNames()), w.From, w.To)
	slices.Sort(models)
	return models, err
}

// spread warns of several namespaces that are added up.
func (h *History) spread(ctx context.Context, n Names, w Wanted) error {
	if w.Namespace != "" || n.Namespace == "" {
		return nil
	}
	all, err := h.server.values(ctx, n.Namespace, h.labels.selector(h.Names.requests()), w.From, w.To)
	if err == nil && len(all) > 1 {
		slices.Sort(all)
		h.warn("several_namespaces", "requests of %d namespaces are added up: %q", len(all), all)
	}
	return err
}

func (h *History) warn(code, format string, args ...any) {
	h.Warnings = append(h.Warnings, profile.Warnf(code, format, args...))
}

// CountsArrivals reports whether requests that arrive are known, and not only those that end.
func (h History) CountsArrivals() bool {
	return h.Names.Lacks == "" && !slices.ContainsFunc(h.Names.held(), func(gauges []string) bool { return len(gauges) == 0 })
}
