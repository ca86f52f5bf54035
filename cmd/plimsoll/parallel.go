package main

import (
	"plimsoll/engine"
	"plimsoll/engine/field"
)

// apart reports whether engines that run side by side leave each other alone:
// those in virtual time, and those on nodes of a cluster. On one machine they
// would share its CPUs, and each would be measured in the others' company.
func (d deployment) apart(o profileOptions) bool { return d.kind == engine.KindEstimate || o.kube.on }

// checkParallel refuses candidates side by side where they would disturb each other.
func (d deployment) checkParallel(o profileOptions) error {
	if o.parallel <= 1 || d.apart(o) {
		return nil
	}
	return field.Errorf("--parallel %d: engines side by side on this machine would share its CPUs, and none would be measured alone", o.parallel).
		Hint("leave --parallel out; --engine estimate and --launcher kubernetes take it")
}
