#!/usr/bin/env bash
# llama.cpp's own HTTP server for the CPU, from Debian sid, in a folder of its
# own: neither the system's packages nor apt's state are touched, and it runs
# with sid's own libc, so that any Debian will do.
#
# usage: get-llama-server.sh DIR LOCK    makes DIR/llama-server and DIR/versions
#
# LOCK pins a version for each package. Sid keeps only the current one: where a
# pinned version is gone, the current ones are taken, loudly. DIR/versions says
# what was taken.
set -euo pipefail

dir=$(realpath -m "$1")
lock=$(realpath "$2")
root=$dir/root

say() { echo "get-llama-server: $*" >&2; }

locked() { grep -v '^#' "$lock"; }

works() { [[ -x $dir/llama-server && -f $dir/versions ]] && "$dir/llama-server" --version >/dev/null 2>&1; }

if works && diff -q <(locked) "$dir/versions" >/dev/null; then
	exit 0
fi
if [[ $(dpkg --print-architecture) != amd64 ]]; then
	say "only known to work on amd64, not on $(dpkg --print-architecture)"
	exit 3
fi

# The registry is the one that this machine uses for its own packages.
# shellcheck disable=SC2016 # apt expands it
mirror=$(apt-get indextargets --format '$(REPO_URI)' 2>/dev/null | grep -v security | sort -u | head -n 1 || true)
if [[ -z $mirror ]]; then
	say "no Debian package source is configured on this machine"
	exit 3
fi

mkdir -p "$dir"/{lists,cache/archives}/partial
echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror sid main" >"$dir/sid.list"
cat >"$dir/apt.conf" <<C
Dir::Etc::sourcelist "$dir/sid.list";
Dir::Etc::sourceparts "-";
Dir::State::lists "$dir/lists";
Dir::Cache "$dir/cache";
Acquire::Retries "3";
Acquire::Languages "none";
Acquire::IndexTargets::deb::DEP-11::DefaultEnabled "false";
Acquire::IndexTargets::deb::Contents-deb::DefaultEnabled "false";
APT::Sandbox::User "root";
C
export APT_CONFIG=$dir/apt.conf

# download NAME… gets packages, with =VERSION or as they are now, into an empty
# DIR/debs; apt checks their signatures.
download() {
	rm -rf "$dir/debs" && mkdir -p "$dir/debs"
	(cd "$dir/debs" && apt-get -qq download "$@")
}

# obtain fills DIR/debs with what is pinned or, where that is gone, with what
# there is.
obtain() {
	apt-get -qq update --error-on=any || return
	download "${pinned[@]}" 2>"$dir/download.log" && return
	download "${names[@]}" || return
	say "warning: Debian sid no longer has what $(basename "$lock") pins; the current versions were taken:"
	while read -r line; do say "$line"; done < <(grep '^E:' "$dir/download.log")
}

mapfile -t pinned < <(locked | tr ' ' '=')
mapfile -t names < <(locked | cut -d ' ' -f 1)
if ! obtain; then
	if works; then
		say "warning: the packages cannot be had now: going on with those of an earlier run, which are not what $(basename "$lock") pins"
		exit 0
	fi
	say "the packages of $(basename "$lock") cannot be had from Debian's registry"
	exit 1
fi

rm -rf "$root" && mkdir -p "$root"
: >"$dir/versions.new"
for name in "${names[@]}"; do
	deb=$(echo "$dir/debs/${name}"_*.deb)
	dpkg -x "$deb" "$root"
	echo "$name $(dpkg-deb -f "$deb" Version)" >>"$dir/versions.new"
done
lib=$root/usr/lib/x86_64-linux-gnu
# ggml looks for its CPU back-ends beside /proc/self/exe, which is ld.so here.
(cd "$lib" && ln -sf ggml/backends0/*.so .)
cat >"$dir/llama-server" <<W
#!/usr/bin/env bash
exec $lib/ld-linux-x86-64.so.2 --library-path $lib:$lib/llama:$lib/ggml --argv0 $root/usr/bin/llama-server $root/usr/bin/llama-server "\$@"
W
chmod +x "$dir/llama-server"
"$dir/llama-server" --version >&2
mv "$dir/versions.new" "$dir/versions"
diff <(locked) "$dir/versions" >&2 || true
