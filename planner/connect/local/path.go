package local

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
)

// stateDirVar names the folder of state files, as upstream's circus arbiter has it.
const stateDirVar = "DYN_LOCAL_STATE_DIR"

// Path is where upstream keeps the state of a namespace's local workers:
// $DYN_LOCAL_STATE_DIR/{namespace}.json, or ~/.dynamo/state/{namespace}.json.
func Path(namespace string) (string, error) {
	if err := checkName("namespace", namespace); err != nil {
		return "", err
	}
	if dir := os.Getenv(stateDirVar); dir != "" {
		return filepath.Abs(filepath.Join(dir, namespace+".json"))
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", fmt.Errorf("finding the folder of state files: %w: set %s", err, stateDirVar)
	}
	return filepath.Join(home, ".dynamo", "state", namespace+".json"), nil
}

// paths fills in those that are left out, and makes them absolute: they are
// read by programs that run elsewhere.
func (o *Options) paths() (err error) {
	if o.Path == "" {
		if o.Path, err = Path(o.Namespace); err != nil {
			return err
		}
	}
	if o.Path, err = filepath.Abs(o.Path); err != nil {
		return err
	}
	o.LogDir = cmp.Or(o.LogDir, filepath.Join(filepath.Dir(o.Path), "logs"))
	o.LogDir, err = filepath.Abs(o.LogDir)
	return err
}
