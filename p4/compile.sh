#!/usr/bin/env bash
# Compiles the P4 programs into a folder: that of v1model with p4c-bm2-ss, for each hash
# family with the switch's clock and with given times, a warning being a fault; those of tna with
# p4c-barefoot and its assembler, bfas, if both are there (internal/tofino), which
# warns where its tables of stages are not those of README.md. "make p4" runs it.
#
#   p4/compile.sh [folder]      P4C_BM2, P4C_BAREFOOT and BFAS name the programs; if p4c is
#                               not installed, P4C_16_INCLUDE_PATH is the folder of core.p4
#                               and TNA_INCLUDE that of tna.p4
set -euo pipefail
cd "$(dirname "$0")/.."

out=${1:-bin/p4}
p4c_bm2=${P4C_BM2:-p4c-bm2-ss}
p4c_barefoot=${P4C_BAREFOOT:-p4c-barefoot}
bfas=${BFAS:-bfas}

if ! command -v "$p4c_bm2" >/dev/null; then
	echo "$p4c_bm2 is not here: install p4c (https://github.com/p4lang/p4c), or say where its compiler for BMv2 is, as in P4C_BM2=/opt/p4c/p4c-bm2-ss" >&2
	exit 1
fi

# bmv2 NAME FLAGS...: the JSON for simple_switch and what P4Runtime wants to know.
bmv2() {
	local name=$1
	shift
	"$p4c_bm2" --std p4-16 --Werror "$@" -o "$out/$name.json" \
		--p4runtime-files "$out/$name.p4info.txtpb" p4/v1model/weir.p4
	echo "$out/$name.json"
}

mkdir -p "$out"
bmv2 weir
bmv2 weir-given-time -DWEIR_GIVEN_TIME
bmv2 weir-xxhash -DWEIR_XXHASH
bmv2 weir-xxhash-given-time -DWEIR_XXHASH -DWEIR_GIVEN_TIME

if ! command -v "$p4c_barefoot" >/dev/null || ! command -v "$bfas" >/dev/null; then
	echo "the tna programs are not compiled: $p4c_barefoot and $bfas are of p4c's Tofino back end; say where they are by P4C_BAREFOOT and BFAS" >&2
	exit 0
fi
# It assembles them too and judges the result, as only the assembler tells that a
# program does not fit. A warning is no fault there, but is counted: the back end has some
# of itself.
P4C_BAREFOOT=$p4c_barefoot BFAS=$bfas "${GO:-go}" run ./internal/tofino -out "$out/tna" -check p4/README.md \
	${P4C_16_INCLUDE_PATH:+-I "$P4C_16_INCLUDE_PATH"} ${TNA_INCLUDE:+-I "$TNA_INCLUDE"}
