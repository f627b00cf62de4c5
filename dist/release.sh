#!/usr/bin/env bash
# release.sh OUT: a release of this tree in OUT, for each of ARCHES: an archive, a deb, an rpm, an OCI image, a list of
# all modules inside (CycloneDX), and checksums. The same commit and the same Go release make the same bytes.
# "make release" calls it.
set -euo pipefail

out=$1
export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
MADE=$(date -u -d "@$SOURCE_DATE_EPOCH" +%Y-%m-%dT%H:%M:%SZ)
export MADE VERSION
export TZ=UTC LC_ALL=C
tools=$PWD/dist/tools.mod
mkdir -p "$out"
out=$(cd "$out" && pwd)
rm -f "$out"/*
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

build() { # build ARCH FILE
	CGO_ENABLED=0 GOOS=linux GOARCH=$1 go build -buildvcs=false -trimpath \
		-ldflags "-s -w -buildid= -X github.com/weirswitch/weir/internal/buildinfo.release=$VERSION" -o "$2" ./cmd/weir
}

build "$(go env GOARCH)" "$work/weir" # writes the man pages and completions
for ARCH in $ARCHES; do
	export ARCH STAGE=$work/stage-$ARCH
	build "$ARCH" "$work/weir-$ARCH"
	make -s --no-print-directory install-files DESTDIR="$STAGE" PREFIX=/usr ETC=/etc BINARY="$work/weir-$ARCH" WEIR="$work/weir"
	find "$STAGE" -exec touch -hd "@$SOURCE_DATE_EPOCH" {} +
	name=weir-$VERSION-linux-$ARCH
	tar -C "$STAGE" --sort=name --owner=0 --group=0 --numeric-owner --format=gnu -c . | gzip -n >"$out/$name.tar.gz"
	sed -e "s|\${ARCH}|$ARCH|g; s|\${VERSION}|$VERSION|g; s|\${STAGE}|$STAGE|g; s|\${MADE}|$MADE|g" dist/nfpm.yaml >"$work/nfpm.yaml"
	for packager in deb rpm; do
		go tool -modfile="$tools" nfpm package --config "$work/nfpm.yaml" --packager "$packager" --target "$out/$name.$packager" >"$work/log" || { cat "$work/log"; exit 1; }
	done
	go run ./internal/ociimage -root "$STAGE" -arch "$ARCH" -version "$VERSION" -time "$SOURCE_DATE_EPOCH" -out "$out/$name.oci.tar"
	go tool -modfile="$tools" cyclonedx-gomod bin -json -noserial -notimestamp -std -version "$VERSION" -output "$out/$name.cdx.json" "$work/weir-$ARCH" 2>/dev/null
done
(cd "$out" && sha256sum -- * >SHA256SUMS)
