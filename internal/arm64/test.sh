#!/usr/bin/env bash
# Runs tests as arm64 programs, small, on qemu-aarch64 (Debian's qemu-user), which has that processor's instructions for
# AES and CRCs: a test of these fails if they are not used.
#
#	test.sh        builds and vets all packages, and runs their tests but those of left-out.txt
#	test.sh some   the packages with assembly for arm64, without the statistics of hashes
#
# At the end it counts the tests that skipped, by reason. QEMU cannot make namespaces: what needs them skips.
set -euo pipefail
cd "$(dirname "$0")/../.."
go=${GO:-go}
list=internal/arm64/left-out.txt
export CGO_ENABLED=0 WEIR_REQUIRE_INSTRUCTIONS=1
unset WEIR_REQUIRE_NETNS WEIR_REQUIRE_TSHARK WEIR_REQUIRE_CHROMIUM WEIR_REQUIRE_VM WEIR_REQUIRE_BMV2
command -v qemu-aarch64 >/dev/null || { echo "qemu-aarch64 is missing: apt-get install qemu-user" >&2; exit 1; }

module=$($go list -m)
if [[ ${1:-} == some ]]; then
	packages=$(find . -name '*_arm64.s' -printf '%h\n' | sort -u)
	always='^(TestSecondWords|TestFamily)$'
else
	packages=./...
	always='^$'
	GOARCH=arm64 $go build ./...
fi
# A name that is not there any more would leave nothing out.
while read -r package test; do
	[[ -d $package ]] && { [[ $test == '*' ]] || grep -qE "^func ${test%%/*}\(" "$package"/*_test.go; } ||
		{ echo "$list: there is no $test in $package" >&2; exit 1; }
done < <(grep -v -e '^#' -e '^$' $list)
GOARCH=arm64 $go vet $packages

most=$((32 << 30)) # bytes of address space; of each page QEMU keeps 20 bytes in memory
results=$(mktemp)
trap 'rm -f "$results" "$results".*' EXIT
failed=0
# run PATTERN PACKAGE... runs the tests that do not match PATTERN.
run() {
	$go tool gotestsum --format standard-quiet --hide-summary=skipped --jsonfile "$results.one" --raw-command -- \
		env GOARCH=arm64 "$go" test -json -short -vet=off -timeout 30m -p "${PARALLEL:-2}" ${TESTFLAGS:-} \
		-exec "prlimit --as=$most qemu-aarch64" -skip "$1" "${@:2}" </dev/null || failed=1
	cat "$results.one" >>"$results"
}

plain=()
while read -r package; do
	package=${package#"$module"/}
	tests=$(awk -v package="$package" '$1 == package {print $2}' $list)
	case $tests in
	'') plain+=("./$package") ;;
	'*') ;;
	*) # each part of a name between slashes is a pattern
		run "$always|$(sed 's|/|$/^|g; s|.*|^&$|' <<<"$tests" | paste -sd '|')" "./$package" ;;
	esac
done < <($go list $packages)
if ((${#plain[@]})); then
	run "$always" "${plain[@]}"
fi

awk '
	function field(name) { return match($0, "\"" name "\":\"[^\"]*\"") ? substr($0, RSTART, RLENGTH) : "" }
	/"Action":"output"/ && match($0, /_test\.go:[0-9]+: /) {
		reason = substr($0, RSTART + RLENGTH); sub(/\\n"}.*/, "", reason)
		test = field("Package") field("Test"); reasons[test] = reason
	}
	/"Action":"(pass|fail|skip)"/ && /"Test":/ {
		action = field("Action"); gsub(/"Action":|"/, "", action)
		if ($0 !~ /"Test":"[^"]*\//) count[action]++
		if (action == "skip") skipped[reasons[field("Package") field("Test")]]++
	}
	END {
		printf "arm64: %d tests passed, %d failed, %d skipped; with subtests, these skipped:\n", count["pass"], count["fail"], count["skip"]
		sort = "sort -rn"
		for (reason in skipped) printf "%5d  %s\n", skipped[reason], reason | sort
	}' "$results"
[[ $always != '^$' ]] || echo "left out, by $list: $(grep -v -e '^#' -e '^$' $list | grep -vc '[*]$') tests, $(grep -c '[*]$' $list) packages"
exit $failed
