#!/usr/bin/env bash
# Installs QEMU and unpacks a Linux kernel for the tests of dataplane/vm, as root on Debian 12: QEMU of
# bookworm-backports, which has the NIC igb, and the newest Linux of trixie-backports, whose drivers have AF_XDP
# zero-copy. The kernel is unpacked, not installed, into WEIR_VM_DIR (/var/cache/weir-vm):
#
#   vmlinuz, modules/kernel/..., version
#
# Suites come from the archive that apt already uses; apt's own sources and lists stay as they are. What is there
# already is kept: remove the folder for a newer kernel.
set -euo pipefail

dir=${WEIR_VM_DIR:-/var/cache/weir-vm}
qemu=qemu-system-x86_64
if [[ -f $dir/version ]] && command -v $qemu >/dev/null; then
	echo "$($qemu --version | head -n 1); Linux $(<"$dir/version") in $dir"
	exit
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work"/{lists,archives,sources}/partial "$work/root"
read -r uri key < <(apt-get indextargets --format '$(CODENAME) $(REPO_URI) $(SIGNED_BY)' 'Created-By: Packages' |
	awk '$1 == "bookworm" {print $2, $3; exit}')
if [[ -z ${uri:-} ]]; then
	echo "apt knows no archive of bookworm: this script is for Debian 12, after apt-get update" >&2
	exit 1
fi
[[ -f ${key:-} ]] || key=/usr/share/keyrings/debian-archive-keyring.gpg
for suite in bookworm bookworm-backports trixie-backports; do
	echo "deb [signed-by=$key] $uri $suite main"
done >"$work/sources.list"
cat >"$work/apt.conf" <<-END
	Dir::Etc::sourcelist "$work/sources.list";
	Dir::Etc::sourceparts "$work/sources";
	Dir::State::lists "$work/lists";
	Dir::Cache "$work";
	APT::Sandbox::User "root";
END
export APT_CONFIG=$work/apt.conf DEBIAN_FRONTEND=noninteractive
apt-get update -q </dev/null

if ! command -v $qemu >/dev/null; then
	apt-get install -q -y --no-install-recommends -t bookworm-backports qemu-system-x86 </dev/null
fi

if [[ ! -f $dir/version ]]; then
	version=$(apt-cache search --names-only '^linux-binary-[0-9.]+\+deb13-amd64$' | sed 's/^linux-binary-\([^ ]*\).*/\1/' | sort -V | tail -n 1)
	if [[ -z $version ]]; then
		echo "the archive has no package linux-binary-*-amd64 of trixie-backports" >&2
		exit 1
	fi
	(cd "$work" && apt-get download -q "linux-binary-$version" "linux-modules-$version")
	for package in "$work"/*.deb; do
		dpkg-deb -x "$package" "$work/root"
	done
	mkdir -p "$dir"
	rm -rf "$dir/modules"
	mv "$work/root/usr/lib/modules/$version" "$dir/modules"
	mv "$dir/modules/vmlinuz" "$dir/vmlinuz"
	echo "$version" >"$dir/version"
fi
echo "$($qemu --version | head -n 1); Linux $(<"$dir/version") in $dir"
