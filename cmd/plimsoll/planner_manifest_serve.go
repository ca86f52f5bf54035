package main

import (
	"flag"
	"io"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"plimsoll/engine/field"
	"plimsoll/profile"
	"plimsoll/profile/store"
)

// manifestSets are the flags of planner serve that a manifest gives itself, and what
// to say instead of --serve.
func manifestSets(c *cli.Context) map[string]string {
	sets := map[string]string{
		"environment": "it is kubernetes", "listen": "the page stays on the pod's loopback: kubectl port-forward",
		"lease": "--name names it", "metrics-listen": "--port is its port", "kube-namespace": "--kube-namespace says it", "config": "--config FILE becomes a ConfigMap",
		"deployment": "--deployment names it", "target": "--target names it",
	}
	if c.String("profile-config-map") != "" {
		sets["profile"] = "--profile-config-map holds it"
	}
	if c.String("profile-pvc") != "" {
		sets["profile"] = "--profile-pvc holds it"
	}
	return sets
}

// servedFlags are the flags of planner serve as --serve gives them. What planner
// serve refuses would show only as a pod that ends again and again.
func servedFlags(c *cli.Context) (*cli.Context, error) {
	command := plannerServeCommand()
	set := flag.NewFlagSet(command.Name, flag.ContinueOnError)
	set.SetOutput(io.Discard)
	for _, f := range command.Flags {
		if err := f.Apply(set); err != nil {
			return nil, err
		}
	}
	serving := cli.NewContext(c.App, set, nil)
	serving.Command = command
	sets := manifestSets(c)
	for _, f := range c.StringSlice("serve") {
		name, value, valued := strings.Cut(f, "=")
		if name == "" || strings.HasPrefix(name, "-") || strings.ContainsAny(name, " \t\n") {
			return nil, field.Errorf("--serve %q: want FLAG=VALUE without dashes", f).Hint("--serve ttft=500")
		}
		if set.Lookup(name) == nil {
			return nil, unknownServed(f, name, serving)
		}
		if instead, ok := sets[firstName(serving, name)]; ok {
			return nil, field.Errorf("--serve %q: the manifest sets --%s itself", f, name).Hint("%s", instead)
		}
		switch {
		case valued:
		case isBool(command.Flags, name):
			value = "true"
		default:
			return nil, field.Errorf("--serve %q: --%s takes a value: want %s=VALUE", f, name, name)
		}
		if err := serving.Set(name, value); err != nil {
			return nil, field.Errorf("--serve %q: %v", f, err)
		}
	}
	return serving, nil
}

func unknownServed(said, name string, serving *cli.Context) error {
	e := field.Errorf("--serve %q: planner serve has no flag --%s", said, name)
	if n := nearest(name, flagNames(serving)); n != "" {
		return e.Hint("did you mean %s?", n)
	}
	return e.Hint("see plimsoll planner serve --help")
}

func isBool(flags []cli.Flag, name string) bool {
	return slices.ContainsFunc(flags, func(f cli.Flag) bool {
		_, ok := f.(*cli.BoolFlag)
		return ok && slices.Contains(f.Names(), name)
	})
}

// checkServed says what planner serve will say of its flags and its file, as far as
// that needs no profile.
func checkServed(c *cli.Context) error {
	p := &parser{c: c}
	s := plannerSettings{policy: p.choice("policy", servedPolicies()...)}
	s.surfaces.rec.SLA = store.SLA{TTFTMillis: 1, ITLMillis: 1, Stat: profile.Mean} // the profile may have one
	p.fitPolicies(s.policy)
	if _, err := s.parse(p); err != nil && strings.HasPrefix(err.Error(), "--") { // others are of engines that only the profile knows
		return err
	}
	return nil
}
