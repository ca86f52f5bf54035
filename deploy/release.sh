#!/usr/bin/env bash
# Builds what is released: an archive for each system, with the program, its manual
# pages, completions, documentation, licence and those of the libraries in it; and checksums of all.
#
# usage: release.sh VERSION OUT_DIR [FLAVOUR…]
#
# The same commit gives the same bytes again, in any folder, with the same Go and,
# for linux_amd64, the same C compiler: no time, path, user or order gets in.
# OUT_DIR must not be there yet, or be empty. A flavour is SYSTEM_ARCHITECTURE[_static].
# linux_amd64 finds GPUs through NVML, which it loads when it runs, and wants glibc;
# the others hold no C, run anywhere, and know GPUs by --gpu and --gpu-count alone.
set -euo pipefail

if (($# < 2)); then
	echo "usage: release.sh VERSION OUT_DIR [FLAVOUR…]" >&2
	exit 2
fi
version=$1
if [[ ! $version =~ ^[0-9A-Za-z.+-]+$ ]]; then
	echo "release.sh: version \"$version\": want letters, digits, dots, plus and minus" >&2
	exit 2
fi
cd "$(dirname "$0")/.."
mkdir -p "$2"
out=$(realpath "$2")
flavours=("${@:3}")
if ((${#flavours[@]} == 0)); then
	flavours=(linux_amd64 linux_amd64_static linux_arm64_static darwin_arm64_static)
fi
if [[ -n $(ls -A "$out") ]]; then
	echo "release.sh: $out is not empty" >&2
	exit 2
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Archives' times: the commit's, which a source archive without git says itself.
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
export SOURCE_DATE_EPOCH GOFLAGS="-trimpath -buildvcs=false -mod=readonly"

# build FILE builds for GOOS and GOARCH.
build() { go build -ldflags "-s -w -buildid= -X main.version=$version" -o "$1" ./cmd/plimsoll; }

# licences prints those of the modules that are built in.
licences() {
	go list -deps -f '{{with .Module}}{{if not .Main}}{{.Path}} {{.Version}} {{.Dir}}{{end}}{{end}}' ./cmd/plimsoll | LC_ALL=C sort -u |
		while read -r path number dir; do
			found=$(find "$dir" -maxdepth 1 -type f \( -iname 'licen[cs]e*' -o -iname 'copying*' -o -iname 'notice*' \) | LC_ALL=C sort)
			if [[ -z $found ]]; then
				echo "release.sh: $path $number has no licence file" >&2
				return 1
			fi
			printf '== %s %s\n\n' "$path" "$number"
			while read -r file; do
				cat "$file"
				echo
			done <<<"$found"
		done
}

# The pages and completions come from the program itself: from one that runs here.
build "$work/here"
"$work/here" man "$work/man"
mkdir "$work/completions"
for shell in bash zsh fish; do
	"$work/here" completion "$shell" >"$work/completions/plimsoll.$shell"
done

for flavour in "${flavours[@]}"; do
	IFS=_ read -r system architecture static <<<"$flavour"
	export GOOS=$system GOARCH=$architecture CGO_ENABLED=1
	if [[ -n $static ]]; then
		CGO_ENABLED=0
	fi
	name=plimsoll_${version}_$flavour
	mkdir "$work/$name"
	build "$work/$name/plimsoll"
	licences >"$work/$name/THIRD_PARTY_LICENSES"
	cp LICENSE "$work/$name"
	# The README, and whatever it and its pages link to.
	cp -r --parents README.md ARCHITECTURE.md BENCHMARKS.md CONTRIBUTING.md docs "$work/$name"
	cp -r "$work/man" "$work/completions" deploy/plimsoll-planner.service "$work/$name"
	# Modes that no umask changes.
	chmod -R u=rwX,go=rX "$work/$name"
	tar -C "$work" --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner --format=gnu -c "$name" | gzip -n -9 >"$out/$name.tar.gz"
done
unset GOOS GOARCH CGO_ENABLED

(cd "$out" && sha256sum -- *.tar.gz >SHA256SUMS)
(cd "$out" && ls -l)
