package main

import "testing"

// said is what the compiler says, shortened.
const said = `p4/tna/include/../../include/types.p4(15): [--Wwarn=unused] warning: 'flags_t' is unused
typedef bit<16> flags_t;
                ^^^^^^^
p4/tna/include/block.p4(259): [--Winfo=removed] info: removing control 'id_crcs'
control id_crcs(in bit<32> id_high) {
p4/tna/include/disketch_control.p4(136): [--Wwarn=uninitialized-use] warning: subepoch may be uninitialized
p4/tna/include/disketch_control.p4(136): [--Wwarn=uninitialized-use] warning: subepoch_v may be uninitialized
p4/tna/include/disketch_control.p4(140): [--Wwarn=uninitialized-use] warning: cell_v may be uninitialized
/opt/p4c/p4include/tofino1_base.p4(7): [--Wwarn=unused] warning: 'x' is unused
p4x/other.p4(7): [--Wwarn=unused] warning: 'x' is unused
warning: No size defined for table 'message_fragments', setting default size to 512
warning: Parser state min_parse_depth_accept_loop will be unrolled up to 3 times due to @pragma max_loop_depth.
[--Wwarn=substitution] warning: Pragma is ignored

0 errors, 8 warnings generated.
`

func TestWarnings(t *testing.T) {
	w := readWarnings([]byte(said), "p4")
	w.assembler = 2
	const want = `5 (1 no kind, 3 uninitialized-use, 1 unused) of the sources, 4 (1 no kind, 1 substitution, 2 unused) of the compiler itself, 2 of the assembler
  no kind: No size defined for table 'message_fragments', setting default size to 512
  uninitialized-use: p4/tna/include/disketch_control.p4, lines 136 140
  unused: p4/include/types.p4, lines 15
`
	if got := w.String(); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	const none = "0 of the sources, 0 of the compiler itself, 0 of the assembler\n"
	if got := readWarnings([]byte("0 errors, 0 warnings generated.\n"), "p4").String(); got != none {
		t.Errorf("got %q of no warning, want %q", got, none)
	}
}
