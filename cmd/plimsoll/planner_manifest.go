package main

import (
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/urfave/cli/v2"

	"plimsoll/engine"
	"plimsoll/engine/catalog"
	"plimsoll/engine/field"
	"plimsoll/engine/redact"
	"plimsoll/planner/connect/kubernetes"
	"plimsoll/profile"
	"plimsoll/profile/store"
)

func plannerManifestCommand() *cli.Command {
	return &cli.Command{
		Name: "manifest", Usage: "what a planner needs on Kubernetes, as YAML for kubectl apply",
		Description: "Prints a ServiceAccount, a Role with no more than the planner needs in its namespace, a RoleBinding, a\n" +
			"Deployment of planner serve, and a Service for its metrics. Nothing is asked of a cluster.\n\n" +
			"   plimsoll planner manifest --image registry/plimsoll:v1 --deployment llama --kube-namespace serving --profile-config-map llama-profile | kubectl apply -f -\n" +
			"   plimsoll planner manifest --image registry/plimsoll:v1 --target prefill=apps/v1/Deployment/p --target decode=apps/v1/Deployment/d | kubectl apply -f -\n" +
			"   plimsoll planner manifest --image registry/plimsoll:v1 --config planner.yaml --profile-config-map llama-profile | kubectl apply -f -\n\n" +
			"A file of --config becomes a ConfigMap, and says how planner serve runs and, without --deployment and\n" +
			"--target, what is scaled. Planners read it again when they start:\n\n" +
			"   kubectl rollout restart deployment plimsoll-planner\n\n" +
			"The claim of --profile-pvc is the one of profile-sla manifest --results-pvc.\n" +
			"The ConfigMap of --profile-config-map is what profile-sla --results-configmap NAME writes. From a folder it is\n" +
			"made by the following; prefill_batched.json is there unless the profile has no prompts that share a step.\n\n" +
			"   cd profiling_results\n" +
			"   kubectl create configmap NAME --from-file=" + strings.Join(resultFiles(), " --from-file="),
		Flags: append(targetFlags(),
			&cli.StringFlag{Name: "name", Value: "plimsoll-planner", Usage: "`NAME` of the objects, and of the Lease by which one of several planners leads"},
			&cli.StringFlag{Name: "image", Usage: "container `IMAGE` whose entry point is plimsoll"},
			&cli.StringFlag{Name: "kube-namespace", Value: "default", Usage: "`NAMESPACE` of the deployment and of the planner; empty: kustomize says it"},
			&cli.IntFlag{Name: "replicas", Value: 2, Usage: "planners; one leads, the others wait"},
			&cli.IntFlag{Name: "port", Value: 9085, Usage: "of the page, metrics and probes"},
			&cli.StringFlag{Name: "config", Usage: "YAML `FILE` of planner serve, for one deployment; flags win"},
			&cli.StringFlag{Name: "gpus-per-node", Usage: perNodeUsage},
			&cli.StringFlag{Name: "profile-config-map", Usage: "ConfigMap `NAME` with the files of a profile"},
			&cli.StringFlag{Name: "profile-pvc", Usage: "PersistentVolumeClaim with a profile's folder, `CLAIM[:FOLDER]`, mounted read-only (default folder: " + profileFolder + ", where profile-sla manifest has it)"},
		),
		Action: plannerManifest,
	}
}

// targetFlags name what is scaled on Kubernetes.
func targetFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "deployment", Usage: "DynamoGraphDeployment `NAME` (planner serve takes $" + kubernetes.ParentVariable + " without it)", Category: "kubernetes"},
		&cli.StringSliceFlag{Name: "target", Usage: "`ROLE=group/version/Kind/name`, or ROLE=SERVICE of the deployment; ROLE is prefill, decode or aggregated; repeat it", Category: "kubernetes"},
	}
}

// kubeTargets reads --target.
func kubeTargets(flags []string) (map[engine.Role]string, error) {
	targets := map[engine.Role]string{}
	for _, f := range flags {
		role, name, ok := strings.Cut(f, "=")
		r := engine.Role(role)
		switch {
		case !ok || name == "":
			return nil, field.Errorf("--target %q: want ROLE=group/version/Kind/name", f).Hint("--target decode=apps/v1/Deployment/decode")
		case !slices.Contains(engine.Roles(), r):
			return nil, field.Errorf("--target %q: role %q is none of prefill, decode, aggregated", f, role)
		case targets[r] != "":
			return nil, field.Errorf("--target %q: %s is given twice", f, role)
		}
		targets[r] = name
	}
	return targets, nil
}

func plannerManifest(c *cli.Context) error {
	if c.String("format") == "json" {
		return field.Errorf("--format json: a manifest is YAML").Hint("kubectl create --dry-run=client -o json -f FILE")
	}
	serving, config, err := manifestConfig(c)
	if err != nil {
		return err
	}
	targets, err := kubeTargets(serving.StringSlice("target"))
	if err != nil {
		return err
	}
	var missing []string
	if c.String("image") == "" {
		missing = append(missing, "--image")
	}
	if serving.String("deployment") == "" && len(targets) == 0 {
		missing = append(missing, "--deployment")
	}
	if len(missing) > 0 {
		return field.Errorf("%s", areMissing(missing)).Hint("--image registry/plimsoll:v1; --deployment NAME, or --target ROLE=group/version/Kind/name, says what is scaled")
	}
	if err := onOneNode(c, serving); err != nil {
		return err
	}
	claim, folder, err := profileClaim(c)
	if err != nil {
		return err
	}
	m := kubernetes.Manifest{
		Name: c.String("name"), Image: c.String("image"), Port: c.Int("port"), Replicas: c.Int("replicas"), Profile: c.String("profile-config-map"), Claim: claim, Config: config,
		Target: kubernetes.Options{Namespace: c.String("kube-namespace"), Deployment: serving.String("deployment"), Targets: targets},
	}
	m.Args = serveArgs(c, folder)
	if redact.Text(config) != config {
		return field.Errorf("--config holds a credential, which a manifest must not contain").
			Hint("prometheus-bearer-token-file: FILE reads a mounted Secret")
	}
	body, err := m.YAML()
	if err != nil {
		return field.Errorf("%v", err)
	}
	_, err = fmt.Fprintf(c.App.Writer, "%s", body)
	return err
}

// onOneNode refuses engines that span nodes.
func onOneNode(c, serving *cli.Context) error {
	p := &parser{c: c}
	g := catalog.GPU{PerNode: p.perNode()}
	p.c = serving
	for _, name := range []string{"prefill-engine-num-gpu", "decode-engine-num-gpu"} {
		n := p.integer(name, 1, maxGPUs, 1)
		if err := manyNodes(fmt.Sprintf("--%s %d", name, n), g.Nodes(engine.TP(n))); err != nil {
			return err
		}
	}
	return p.err
}

// manifestConfig are the flags that planner serve will have, with its file's, and
// the file's text.
func manifestConfig(c *cli.Context) (*cli.Context, string, error) {
	file, command := c.String("config"), plannerServeCommand()
	serving, err := flagsOf(command, c.App, nil)
	if err != nil {
		return nil, "", err
	}
	given := slices.DeleteFunc([]string{"config", "deployment", "target"}, func(name string) bool { return !c.IsSet(name) })
	if err := setTyped(serving, c, given); err != nil {
		return nil, "", err
	}
	all, err := plannerContexts(serving)
	if err != nil {
		return nil, "", err
	}
	if own := all[0].String("kube-namespace"); len(all) > 1 || own != "" && own != c.String("kube-namespace") {
		return nil, "", field.Errorf("--config %s: a manifest is of one deployment, in the planner's own namespace", file).
			Hint("without deployments and kube-namespace; a planner for each, by --name")
	}
	if err := checkServed(all[0]); err != nil || file == "" {
		return all[0], "", err
	}
	text, err := readConfigText("config", file)
	return all[0], string(text), err
}

// checkServed says what planner serve will say of its file, as far as that needs no
// profile. What it refuses would show only as a pod that ends again and again.
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

// profileFolder is where a profile is in its claim, unless it is said.
const profileFolder = "profiling_results"

// profileClaim reads --profile-pvc.
func profileClaim(c *cli.Context) (claim, folder string, err error) {
	text := c.String("profile-pvc")
	if text == "" {
		return "", "", nil
	}
	if c.String("profile-config-map") != "" {
		return "", "", field.Errorf("--profile-pvc and --profile-config-map exclude each other")
	}
	claim, folder, said := strings.Cut(text, ":")
	if !said {
		folder = profileFolder
	}
	if !filepath.IsLocal(folder) {
		return "", "", field.Errorf("--profile-pvc %q: want CLAIM[:FOLDER] with a folder in the claim", text)
	}
	return claim, folder, nil
}

// serveArgs are the container's arguments; folder is the profile's in its claim, if it
// is in one.
func serveArgs(c *cli.Context, folder string) []string {
	args := []string{
		"planner", "serve", "--environment=kubernetes", "--lease=" + c.String("name"),
		"--listen=:" + strconv.Itoa(c.Int("port")),
	}
	if n := c.String("kube-namespace"); n != "" {
		args = append(args, "--kube-namespace="+n)
	}
	if c.String("config") != "" {
		args = append(args, "--config="+kubernetes.ConfigFile)
	}
	if d := c.String("deployment"); d != "" {
		args = append(args, "--deployment="+d)
	}
	for _, t := range c.StringSlice("target") {
		args = append(args, "--target="+t)
	}
	if c.String("profile-config-map") != "" || folder != "" {
		args = append(args, "--profile="+path.Join(kubernetes.ProfileDir, folder))
	}
	return args
}
