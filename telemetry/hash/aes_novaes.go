//go:build !amd64 || purego

package hash

// hasVAES: only aes_vaes_amd64.s does two rounds of AES in an instruction.
var hasVAES = false

const vaesGroup = group

func vaesWords1(_, _ *uint64, _ *schedule, _ *block, _ int)    { panic("hash: no VAES") }
func vaesWords2(_, _, _ *uint64, _ *schedule, _ *block, _ int) { panic("hash: no VAES") }
func vaesWords5(_, _, _, _, _, _ *uint64, _ *schedule, _ *block, _ int) {
	panic("hash: no VAES")
}
