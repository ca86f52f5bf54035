package main

import (
	"path"
	"slices"

	"plimsoll/engine"
)

// writeAndRun is the shell's part of a command that writes its files itself:
// pairs of text and path, an empty word, and the program's own words.
const writeAndRun = `while [ -n "$1" ]; do printf %s "$1" >"$2" && shift 2 || exit 1; done; shift; exec "$@"`

// podFiles is where they are written; every image has it.
const podFiles = "/tmp"

// inPod makes the files that an engine reads as it starts part of its command,
// for a pod has none of this machine's.
func inPod(spec engine.Spec) engine.Spec {
	if len(spec.Files) == 0 {
		return spec
	}
	argv, write := slices.Clone(spec.Argv), []string{"sh", "-c", writeAndRun, "sh"}
	for _, f := range spec.Files {
		at := path.Join(podFiles, path.Base(f.Path))
		for i, word := range argv {
			if word == f.Path {
				argv[i] = at
			}
		}
		write = append(write, f.Text, at)
	}
	spec.Argv, spec.Files = append(append(write, ""), argv...), nil
	return spec
}
