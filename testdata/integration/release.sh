# Part of run.sh: what is released, from two copies of the source in two folders.
# shellcheck shell=bash disable=SC2154

# copy_source DIR copies the tracked files, as a source archive has them.
copy_source() {
	mkdir "$1"
	git -C "$repo" ls-files -z | (cd "$repo" && tar --null -T - -c) | tar -x -C "$1"
}

# The same bytes in any folder; checksums that hold; a program that knows its
# version; and the static program alone in a root of its own, as in the image, as nobody.
released() {
	local dir=$work/release i name
	export SOURCE_DATE_EPOCH=1700000000
	mkdir "$dir"
	for i in 1 2; do
		copy_source "$dir/source$i"
		"$dir/source$i/deploy/release.sh" v0.0.1 "$dir/out$i" linux_amd64 linux_amd64_static >"$dir/log$i"
	done
	if ! diff "$dir/out1/SHA256SUMS" "$dir/out2/SHA256SUMS" >&2; then
		echo "another folder gives other bytes" >&2
		return 1
	fi
	(cd "$dir/out1" && sha256sum --quiet -c SHA256SUMS)
	for name in plimsoll_v0.0.1_linux_amd64 plimsoll_v0.0.1_linux_amd64_static; do
		tar -xzf "$dir/out1/$name.tar.gz" -C "$dir"
		[[ $("$dir/$name/plimsoll" --version) == "plimsoll version v0.0.1" ]]
	done
	mkdir "$dir/root"
	cp "$dir/plimsoll_v0.0.1_linux_amd64_static/plimsoll" "$dir/root/"
	chroot --userspec=65532:65532 "$dir/root" /plimsoll capacity catalog >"$dir/catalog"
	grep -q H100 "$dir/catalog"
	echo "$(du -sh "$dir/out1" | cut -f 1); alone in its root it runs"
}

check released released
