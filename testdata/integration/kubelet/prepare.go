package kubelet

import (
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// prepare makes the container's process: its arguments and environment, with
// references resolved.
func (c *container) prepare(ctx context.Context) (*exec.Cmd, error) {
	volumes, err := c.volumes(ctx)
	if err != nil {
		return nil, err
	}
	entrypoint := c.pod.k.options.Images[c.spec.Image]
	env, err := c.environment(ctx, entrypoint, volumes)
	if err != nil {
		return nil, err
	}
	argv := c.spec.Command
	if len(argv) == 0 {
		argv = entrypoint
	}
	argv = append(append([]string{}, argv...), c.spec.Args...)
	for i, a := range argv {
		a = listening.ReplaceAllString(volumes.rewrite(expand(a, env)), "${1}"+c.pod.ip+"${2}")
		argv[i] = strings.ReplaceAll(a, "0.0.0.0", c.pod.ip)
	}
	if len(argv) == 0 {
		return nil, fmt.Errorf("no command specified")
	}
	// Ended by its group, never by a context.
	process := exec.Command(lookup(argv[0], env["PATH"]), argv[1:]...) //nolint:noctx // see above
	process.Args[0] = argv[0]
	for name, value := range env {
		process.Env = append(process.Env, name+"="+value)
	}
	process.Dir = c.pod.dir
	if dir := volumes.rewrite(c.spec.WorkingDir); dir != c.spec.WorkingDir { // of a volume: others are not here
		process.Dir = dir
	}
	// A test that is killed or panics ends no pod.
	process.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	return process, nil
}

// listening is an address to listen at: of the pod, or of its loopback alone, which
// is no other pod's.
var listening = regexp.MustCompile(`^(--[a-z-]*listen=)(?:127\.0\.0\.1)?(:\d+)$`)

// lookup is execvp's, in the container's PATH and not the test's.
func lookup(name, path string) string {
	if strings.Contains(name, "/") {
		return name
	}
	for _, dir := range filepath.SplitList(path) {
		file := filepath.Join(dir, name)
		if info, err := os.Stat(file); err == nil && info.Mode()&0o111 != 0 {
			return file
		}
	}
	return filepath.Join("/", name) // where there is none
}

var reference = regexp.MustCompile(`\$\$|\$\([A-Za-z_][A-Za-z0-9_.-]*\)`)

// expand replaces $(NAME), where that is known, and $$ by $.
func expand(text string, env map[string]string) string {
	return reference.ReplaceAllStringFunc(text, func(r string) string {
		if r == "$$" {
			return "$"
		}
		if value, known := env[r[2:len(r)-1]]; known {
			return value
		}
		return r
	})
}

// environment is the container's own, and nothing of this machine's.
func (c *container) environment(ctx context.Context, entrypoint []string, volumes mounts) (map[string]string, error) {
	path := "/usr/local/bin:/usr/bin:/bin"
	if len(entrypoint) > 0 {
		path = filepath.Dir(entrypoint[0]) + ":" + path
	}
	env := map[string]string{"PATH": path, "HOME": c.pod.dir, "HOSTNAME": c.pod.object.Name}
	if s := c.spec.SecurityContext; s != nil && s.ReadOnlyRootFilesystem != nil && *s.ReadOnlyRootFilesystem {
		env["HOME"] = "/proc" // which nobody can write into, not even root
	}
	if account := c.pod.object.Spec.ServiceAccountName; account != "" {
		kubeconfig, err := c.pod.k.options.Kubeconfig(ctx, c.pod.object.Namespace, account)
		if err != nil {
			return nil, err
		}
		env["KUBECONFIG"] = kubeconfig
	}
	for _, v := range c.spec.Env {
		value, err := c.value(ctx, v)
		if err != nil {
			return nil, err
		}
		env[v.Name] = volumes.rewrite(expand(value, env))
	}
	return env, nil
}

func (c *container) value(ctx context.Context, v corev1.EnvVar) (string, error) {
	core, namespace := c.pod.k.options.Client.CoreV1(), c.pod.object.Namespace
	switch from := v.ValueFrom; {
	case from == nil:
		return v.Value, nil
	case from.FieldRef != nil:
		return c.field(from.FieldRef.FieldPath)
	case from.SecretKeyRef != nil:
		r := from.SecretKeyRef
		secret, err := core.Secrets(namespace).Get(ctx, r.Name, metav1.GetOptions{})
		return string(secret.Data[r.Key]), unlessOptional(r.Optional, err)
	case from.ConfigMapKeyRef != nil:
		r := from.ConfigMapKeyRef
		config, err := core.ConfigMaps(namespace).Get(ctx, r.Name, metav1.GetOptions{})
		return config.Data[r.Key], unlessOptional(r.Optional, err)
	default:
		return "", fmt.Errorf("the test's kubelet has no such source of %s", v.Name)
	}
}

func unlessOptional(optional *bool, err error) error {
	if optional != nil && *optional {
		return nil
	}
	return err
}

func (c *container) field(path string) (string, error) {
	object := c.pod.object
	fields := map[string]string{
		"metadata.name": object.Name, "metadata.namespace": object.Namespace, "metadata.uid": string(object.UID),
		"spec.nodeName": object.Spec.NodeName, "spec.serviceAccountName": object.Spec.ServiceAccountName,
		"status.podIP": c.pod.ip,
	}
	value, known := fields[path]
	if !known {
		return "", fmt.Errorf("the test's kubelet has no field %s", path)
	}
	return value, nil
}

// mounts are a container's: by mount path the folder here.
type mounts map[string]string

// rewrite replaces mount paths in a text, the longer ones first.
func (m mounts) rewrite(text string) string {
	paths := slices.SortedFunc(maps.Keys(m), func(a, b string) int { return len(b) - len(a) })
	for _, path := range paths {
		whole := regexp.MustCompile(`(^|[^\w./-])` + regexp.QuoteMeta(path) + `($|[^\w.-])`)
		text = whole.ReplaceAllString(text, "${1}"+m[path]+"${2}")
	}
	return text
}

// volumes makes the folders of the container's volumes.
func (c *container) volumes(ctx context.Context) (mounts, error) {
	if err := os.MkdirAll(c.pod.dir, 0o700); err != nil {
		return nil, err
	}
	all := mounts{}
	for _, mount := range c.spec.VolumeMounts {
		for _, v := range c.pod.object.Spec.Volumes {
			if v.Name != mount.Name {
				continue
			}
			dir, err := c.pod.volume(ctx, v)
			if err != nil {
				return nil, err
			}
			all[strings.TrimSuffix(mount.MountPath, "/")] = filepath.Join(dir, mount.SubPath)
		}
	}
	return all, nil
}

// volume gives a volume's folder here.
func (p *pod) volume(ctx context.Context, v corev1.Volume) (dir string, err error) {
	dir = filepath.Join(p.dir, "volumes", v.Name)
	core, files := p.k.options.Client.CoreV1(), map[string][]byte{}
	switch {
	case v.HostPath != nil:
		return v.HostPath.Path, nil
	case v.PersistentVolumeClaim != nil:
		dir = filepath.Join(p.k.options.Dir, "claims", p.object.Namespace, v.PersistentVolumeClaim.ClaimName)
		if _, err := core.PersistentVolumeClaims(p.object.Namespace).Get(ctx, v.PersistentVolumeClaim.ClaimName, metav1.GetOptions{}); err != nil {
			return "", err
		}
	case v.ConfigMap != nil:
		config, err := core.ConfigMaps(p.object.Namespace).Get(ctx, v.ConfigMap.Name, metav1.GetOptions{})
		if err != nil {
			return "", err
		}
		for name, text := range config.Data {
			files[name] = []byte(text)
		}
		for name, data := range config.BinaryData {
			files[name] = data
		}
	case v.Secret != nil:
		secret, err := core.Secrets(p.object.Namespace).Get(ctx, v.Secret.SecretName, metav1.GetOptions{})
		if err != nil {
			return "", err
		}
		files = secret.Data
	case v.EmptyDir != nil:
	default:
		return "", fmt.Errorf("the test's kubelet has no volume such as %s", v.Name)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	for name, data := range files {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			return "", err
		}
	}
	return dir, nil
}
