//go:build !(amd64 || arm64) || purego

package hash

// hasAES: only the assembly of amd64 and arm64 has rounds of AES.
var hasAES = false

func encryptOne(*schedule, *block)                            { panic("hash: no AES") }
func rounds4One(*[4]block, *block)                            { panic("hash: no AES") }
func aesWords1(_, _ *uint64, _ *schedule, _ *block, _ int)    { panic("hash: no AES") }
func aesWords2(_, _, _ *uint64, _ *schedule, _ *block, _ int) { panic("hash: no AES") }
func aesWords5(_, _, _, _, _, _ *uint64, _ *schedule, _ *block, _ int) {
	panic("hash: no AES")
}
