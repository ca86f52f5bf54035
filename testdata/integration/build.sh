#!/usr/bin/env bash
# Builds what the tests start, and prints the folder that it is in.
#
# usage: build.sh CACHE_DIR    the servers of a cluster: servers/go.mod and, for etcd, go.mod
#
# Once built they are reused until a version changes. They are built one after
# the other, and by one build.sh at a time: the API server alone takes 2 GB of
# memory and eight minutes of one core.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
cache=$(realpath -m "$1")
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

# sources prints all that decides what is built.
sources() {
	cat "$here/build.sh" "$here"/servers/go.mod "$here"/servers/go.sum
	go -C "$here" list -m "$etcd"
}

key=$(sources | sha256sum | cut -c 1-16)
built=$cache/servers/$key
mkdir -p "$cache/servers"
exec 9>"$cache/servers/lock"
flock 9

if [[ ! -d $built ]]; then
	part=$(mktemp -d "$cache/servers/part.XXXXXX")
	trap 'rm -rf "$part"' EXIT
	build_servers
	# Versions that nobody used for two weeks go.
	find "$cache/servers" -mindepth 1 -maxdepth 1 -type d -mtime +14 -exec rm -rf {} +
	chmod 755 "$part"
	mv "$part" "$built"
fi
touch "$built"
echo "$built"
