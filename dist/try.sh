#!/usr/bin/env bash
# try.sh DIR: installs each package of a release for this machine's processor into a clean root, and runs a switch
# from it between two hosts in network namespaces. It needs root, dpkg and rpm; with DEBOOTSTRAP=1 the deb goes into a
# Debian made by debootstrap, by apt. "make release-test" calls it.
set -euo pipefail

dir=$(cd "$1" && pwd)
arch=$(go env GOARCH)
work=$(mktemp -d)
pid=
end() {
	[ -z "$pid" ] || kill "$pid" 2>/dev/null || true
	for n in left right switch; do ip netns del "weirtry-$$-$n" 2>/dev/null || true; done
	for m in "$work"/*/proc "$work"/*/sys; do mountpoint -q "$m" && umount -l "$m" || true; done
	rm -rf --one-file-system "$work"
}
trap end EXIT

(cd "$dir" && sha256sum --quiet -c SHA256SUMS)

# try NAME ROOT: the installed weir says its version, has its pages, and forwards.
try() {
	local root=$2 said
	said=$(chroot "$root" /usr/bin/weir --version)
	case $said in "weir $VERSION,"*) ;; *) echo "$1: --version said $said, not $VERSION"; exit 1 ;; esac
	for file in share/man/man1/weir.1.gz share/man/man1/weir-switch.1.gz share/bash-completion/completions/weir \
		lib/systemd/system/weir@.service lib/systemd/system/weir-collect.service share/doc/weir/LICENSE share/doc/weir/config/patch.toml share/doc/weir/docs/images/page.png; do
		[ -s "$root/usr/$file" ] || { echo "$1: /usr/$file is missing"; exit 1; }
	done
	mkdir -p "$root/proc" "$root/sys" "$root/run" "$root/tmp" "$root/etc/weir"
	mountpoint -q "$root/proc" || mount -t proc proc "$root/proc"
	ip netns add "weirtry-$$-switch"
	for n in left right; do
		ip netns add "weirtry-$$-$n"
		ip -n "weirtry-$$-switch" link add "$n" type veth peer name eth0 netns "weirtry-$$-$n"
		ip -n "weirtry-$$-switch" link set "$n" up
		ip -n "weirtry-$$-$n" link set eth0 up
	done
	ip -n "weirtry-$$-left" address add 10.0.0.1/24 dev eth0
	ip -n "weirtry-$$-right" address add 10.0.0.2/24 dev eth0
	cat >"$root/etc/weir/try.toml" <<-END
		[switch]
		name = "try"
		graph = ["parse", "patch"]
		[[port]]
		interface = "left"
		[[port]]
		interface = "right"
	END
	chroot "$root" /usr/bin/weir switch -c /etc/weir/try.toml --check >/dev/null
	mkfifo "$work/ready"
	WEIR_READY_FD=9 ip netns exec "weirtry-$$-switch" sh -c 'mount -t sysfs sys "$1/sys" && exec chroot "$1" /usr/bin/weir switch -c /etc/weir/try.toml --report json' sh "$root" >"$work/report" 2>"$work/log" 9>"$work/ready" &
	pid=$!
	read -r -t 120 word <"$work/ready" || { cat "$work/log"; exit 1; }
	rm "$work/ready"
	ip netns exec "weirtry-$$-left" ping -q -c 3 -i 0.2 -W 10 10.0.0.2 >"$work/ping" || { cat "$work/ping" "$work/log"; exit 1; }
	ip netns exec "weirtry-$$-switch" chroot "$root" /usr/bin/weir ctl --name try show ports >/dev/null
	kill "$pid" && wait "$pid" && pid=
	grep -q '"balanced":true' "$work/report" || { cat "$work/report"; exit 1; }
	for n in left right switch; do ip netns del "weirtry-$$-$n"; done
	umount "$root/proc"
	echo "ok  $1: $said"
}

name=$dir/weir-$VERSION-linux-$arch

mkdir -p "$work/tar" && tar -C "$work/tar" -xzf "$name.tar.gz"
try "archive" "$work/tar"

mkdir -p "$work/deb/var/lib/dpkg/info" "$work/deb/var/lib/dpkg/updates" "$work/deb/var/log" && touch "$work/deb/var/lib/dpkg/status" "$work/deb/var/lib/dpkg/available"
dpkg --root="$work/deb" --force-script-chrootless -i "$name.deb" >/dev/null
try "deb" "$work/deb"

if [ -n "${DEBOOTSTRAP:-}" ]; then
	debootstrap --variant=minbase bookworm "$work/debian" >"$work/debootstrap.log" || { tail "$work/debootstrap.log"; exit 1; }
	cp "$name.deb" "$work/debian/weir.deb"
	chroot "$work/debian" dpkg -i /weir.deb >/dev/null
	try "deb in a Debian of debootstrap" "$work/debian"
	chroot "$work/debian" dpkg -r weir >/dev/null
	[ ! -e "$work/debian/usr/bin/weir" ] || { echo "deb: removing it left /usr/bin/weir"; exit 1; }
fi

mkdir -p "$work/rpm" && rpm --root="$work/rpm" --initdb && rpm --root="$work/rpm" --nosignature -i "$name.rpm"
try "rpm" "$work/rpm"

# The image: what its index, manifest and configuration name, unpacked as a runtime does.
mkdir -p "$work/oci" "$work/image" && tar -C "$work/oci" -xf "$name.oci.tar"
blob() { echo "$work/oci/blobs/sha256/${1#sha256:}"; }
manifest=$(blob "$(grep -o '"digest":"sha256:[0-9a-f]*"' "$work/oci/index.json" | head -1 | cut -d'"' -f4)")
layer=$(blob "$(grep -o '"layers":.*' "$manifest" | grep -o 'sha256:[0-9a-f]*' | head -1)")
grep -q '"Entrypoint":\["/usr/bin/weir"\]' "$(blob "$(grep -o '"config":{[^}]*' "$manifest" | grep -o 'sha256:[0-9a-f]*')")"
tar -C "$work/image" -xzf "$layer"
try "OCI image" "$work/image"
