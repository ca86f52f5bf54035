package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/urfave/cli/v2"

	"plimsoll/engine/field"
	"plimsoll/engine/kube"
	"plimsoll/engine/kube/cluster"
)

func kubeCleanupCommand() *cli.Command {
	return &cli.Command{
		Name: "cleanup", Usage: "delete what profile runs left behind on Kubernetes",
		Description: "A run deletes its engines when it ends. One that was killed could not: its Lease is not renewed any more, and\n" +
			"this deletes all that carries its label, waits until the pods and their hold on GPUs are gone, and says what went.\n" +
			"A run that lives is left alone unless --run names it with --force.\n\n" +
			"   plimsoll profile-sla cleanup --kube-namespace inference --dry-run\n" +
			"   plimsoll profile-sla cleanup --kube-namespace inference",
		Flags: append(clusterFlags(),
			&cli.StringFlag{Name: "run", Usage: "only the run of this `ID`"},
			&cli.BoolFlag{Name: "force", Usage: "with --run: although it lives"},
			&cli.BoolFlag{Name: "dry-run", Usage: "list the runs and delete nothing"},
		),
		Action: kubeCleanup,
	}
}

// cleaned is one run as the command tells it.
type cleaned struct {
	Run     string   `json:"run"`
	About   string   `json:"about,omitempty"`
	Holder  string   `json:"holder,omitempty"`
	AgeS    *float64 `json:"age_s,omitempty"`       // since it began
	SeenS   *float64 `json:"last_seen_s,omitempty"` // since its last sign of life
	Lives   bool     `json:"lives"`
	Pods    int      `json:"pods"`
	Deleted []string `json:"deleted"`

	found kube.Found
}

func kubeCleanup(c *cli.Context) error {
	p := &parser{c: c}
	connection, only := p.connection(), p.name("run")
	if c.Bool("force") && only == "" {
		p.fail(field.Errorf("--force goes with --run ID").Hint("--dry-run lists the runs"))
	}
	if p.err != nil {
		return p.err
	}
	config, namespace, err := connection.Config()
	if err != nil {
		return field.Errorf("%v", err)
	}
	if err := endsItself(c.Context); err != nil {
		return err
	}
	runs, err := runsLeft(c, connection, only)
	if err != nil {
		return err
	}
	if only != "" && len(runs) == 0 {
		return field.WithHint(fmt.Errorf("there is no run %s in namespace %s", only, namespace), "--dry-run lists those that there are")
	}
	var errs []error
	for i := range runs {
		r := &runs[i]
		switch {
		case c.Bool("dry-run"):
		case r.Lives && only != "" && !c.Bool("force"):
			return field.WithHint(fmt.Errorf("run %s lives: %s renewed its Lease %s ago", r.Run, r.Holder, age(r.SeenS)), "--force ends it all the same")
		case !r.Lives || c.Bool("force"):
			deleted, err := kube.Cleanup(c.Context, config, namespace, r.found)
			r.Deleted, errs = append(r.Deleted, deleted...), append(errs, err)
		}
	}
	return errors.Join(append(errs, printCleaned(c, namespace, runs))...)
}

// runsLeft are the runs of the namespace, or the one that was asked for. Before one
// is deleted that might live, it is listened for.
func runsLeft(c *cli.Context, on cluster.Connection, only string) ([]cleaned, error) {
	config, namespace, err := on.Config()
	if err != nil {
		return nil, field.Errorf("%v", err)
	}
	others := func(f kube.Found) bool { return only != "" && f.ID != only }
	found, err := kube.Find(c.Context, config, namespace)
	if err != nil {
		return nil, err
	}
	found = slices.DeleteFunc(found, others)
	doubtful := slices.ContainsFunc(found, func(f kube.Found) bool { return f.Doubtful(time.Now()) })
	if doubtful && !c.Bool("dry-run") && !c.Bool("force") {
		say(c.App.ErrWriter, "waiting", "%s for a sign of life of runs that were heard of within the last hour", kube.ListenFor)
		if found, err = kube.Listen(c.Context, config, namespace, found, kube.ListenFor); err != nil {
			return nil, err
		}
		found = slices.DeleteFunc(found, others)
	}
	now, runs := time.Now(), []cleaned{}
	for _, f := range found {
		runs = append(runs, cleanedOf(f, now))
	}
	return runs, nil
}

func cleanedOf(f kube.Found, now time.Time) cleaned {
	since := func(t time.Time) *float64 {
		if t.IsZero() {
			return nil
		}
		s := now.Sub(t).Seconds()
		return &s
	}
	return cleaned{
		Run: f.ID, About: f.About, Holder: f.Holder, AgeS: since(f.Began), SeenS: since(f.Seen), Lives: f.Lives(now),
		Pods: f.Pods, Deleted: []string{}, found: f,
	}
}

// age is a time in words; "?" where it is unknown.
func age(seconds *float64) string {
	if seconds == nil {
		return "?"
	}
	return time.Duration(*seconds * float64(time.Second)).Round(time.Second).String()
}

func printCleaned(c *cli.Context, namespace string, runs []cleaned) error {
	var b bytes.Buffer
	if c.String("format") == "json" {
		if err := json.NewEncoder(&b).Encode(map[string]any{"namespace": namespace, "runs": runs}); err != nil {
			return fmt.Errorf("printing the result: %w", err)
		}
		_, err := c.App.Writer.Write(b.Bytes())
		return err
	}
	if len(runs) == 0 {
		_, err := fmt.Fprintf(c.App.Writer, "no profile run in namespace %s\n", namespace)
		return err
	}
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(w, "RUN\tBEGAN\tLAST SEEN\tPODS\tSTATE\tABOUT") // into memory
	for _, r := range runs {
		_, _ = fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%s\t%s\n", r.Run, ago(r.AgeS), ago(r.SeenS), r.Pods, r.state(c.Bool("dry-run")), cmp.Or(r.About, "?"))
	}
	_ = w.Flush()
	for _, r := range runs {
		if slices.Sort(r.Deleted); len(r.Deleted) > 0 {
			fmt.Fprintf(&b, "deleted of run %s: %s\n", r.Run, strings.Join(r.Deleted, ", "))
		}
	}
	_, err := c.App.Writer.Write(b.Bytes())
	return err
}

func (r cleaned) state(dry bool) string {
	switch {
	case len(r.Deleted) > 0:
		return "deleted"
	case r.Lives:
		return "lives"
	case dry:
		return "dead"
	}
	return "dead, not deleted"
}

func ago(seconds *float64) string {
	if seconds == nil {
		return "?"
	}
	return age(seconds) + " ago"
}
