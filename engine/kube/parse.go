package kube

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// ParseToleration reads KEY[=VALUE][:EFFECT]; without a value the taint may have
// any, without an effect every effect is tolerated.
func ParseToleration(text string) (corev1.Toleration, error) {
	at, effect, _ := strings.Cut(text, ":")
	key, value, equal := strings.Cut(at, "=")
	t := corev1.Toleration{Key: key, Value: value, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffect(effect)}
	if equal {
		t.Operator = corev1.TolerationOpEqual
	}
	effects := []corev1.TaintEffect{"", corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute}
	if key == "" || !slices.Contains(effects, t.Effect) {
		return t, errors.New("want KEY[=VALUE][:NoSchedule|PreferNoSchedule|NoExecute]")
	}
	return t, nil
}

// ParseEnv reads NAME=VALUE.
func ParseEnv(text string) (corev1.EnvVar, error) {
	name, value, ok := strings.Cut(text, "=")
	if !ok || name == "" {
		return corev1.EnvVar{}, errors.New("want NAME=VALUE")
	}
	return corev1.EnvVar{Name: name, Value: value}, nil
}

// ParseSecretEnv reads NAME=SECRET/KEY.
func ParseSecretEnv(text string) (corev1.EnvVar, error) {
	name, from, ok := strings.Cut(text, "=")
	secret, key, slash := strings.Cut(from, "/")
	if !ok || !slash || name == "" || secret == "" || key == "" {
		return corev1.EnvVar{}, errors.New("want NAME=SECRET/KEY")
	}
	return corev1.EnvVar{Name: name, ValueFrom: &corev1.EnvVarSource{
		SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: secret}, Key: key},
	}}, nil
}

// ParseLabels reads KEY=VALUE,… with each key once.
func ParseLabels(text string) (map[string]string, error) {
	all := map[string]string{}
	for word := range strings.SplitSeq(text, ",") {
		k, v, ok := strings.Cut(strings.TrimSpace(word), "=")
		if _, twice := all[k]; !ok || k == "" || twice {
			return nil, fmt.Errorf("%q: want KEY=VALUE,… with each key once", word)
		}
		all[k] = v
	}
	return all, nil
}
