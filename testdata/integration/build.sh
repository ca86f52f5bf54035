#!/usr/bin/env bash
# Builds what the tests start, and prints the folder that it is in.
#
# usage: build.sh CACHE_DIR              the servers of a cluster: servers/go.mod and, for etcd, go.mod
#        build.sh CACHE_DIR simulator    llm-d's vLLM simulator: simulator/go.mod
#
# Once built they are reused until a version changes. They are built one after
# the other, and by one build.sh at a time: the API server alone takes 2 GB of
# memory and eight minutes of one core.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
cache=$(realpath -m "$1")
what=${2:-servers}
# The product's own flags are not for these.
export GOFLAGS="" CGO_ENABLED=0
etcd=go.etcd.io/etcd/server/v3

# build MODULE_DIR PACKAGE NAME LDFLAGS…
build() {
	echo "building $3, $2" >&2
	go -C "$1" build -trimpath -ldflags "-s -w ${*:4}" -o "$part/$3" "$2"
}

build_servers() {
	local kubernetes name kwok stage
	kubernetes=$(go -C "$here/servers" list -m -f '{{.Version}}' k8s.io/kubernetes)
	build "$here" "$etcd" etcd
	for name in kube-apiserver kube-controller-manager kube-scheduler; do
		build "$here/servers" "k8s.io/kubernetes/cmd/$name" "$name" -X "k8s.io/component-base/version.gitVersion=$kubernetes"
	done
	build "$here/servers" sigs.k8s.io/kwok/cmd/kwok kwok
	kwok=$(go -C "$here/servers" list -m -f '{{.Dir}}' sigs.k8s.io/kwok)
	mkdir "$part/kwok-stages"
	for stage in "$kwok"/kustomize/stage/{node,pod}/fast/*.yaml; do
		if [[ $stage != *kustomization.yaml ]]; then
			install -m 644 "$stage" "$part/kwok-stages"
		fi
	done
}

build_simulator() { build "$here/simulator" . simulator; }

# sources prints all that decides what is built.
sources() {
	cat "$here/build.sh" "$here/$what"/go.mod "$here/$what"/go.sum
	case $what in
	servers) go -C "$here" list -m "$etcd" ;;
	simulator) cat "$here"/simulator/*.go ;;
	*) echo "build.sh: no $what" >&2 && return 2 ;;
	esac
}

key=$(sources | sha256sum | cut -c 1-16)
built=$cache/$what/$key
mkdir -p "$cache/$what"
exec 9>"$cache/$what/lock"
flock 9

if [[ ! -d $built ]]; then
	part=$(mktemp -d "$cache/$what/part.XXXXXX")
	trap 'rm -rf "$part"' EXIT
	"build_$what"
	# Versions that nobody used for two weeks go.
	find "$cache/$what" -mindepth 1 -maxdepth 1 -type d -mtime +14 -exec rm -rf {} +
	chmod 755 "$part"
	mv "$part" "$built"
fi
touch "$built"
echo "$built"
