//go:build !(amd64 || arm64) || purego

package hash

// hasCRC: only the assembly of amd64 and arm64 has CRCs.
var hasCRC = false

func crcStep(*sum, *uint64, int)        { panic("hash: no CRC") }
func crcFinish(*uint64, *sum, key, int) { panic("hash: no CRC") }
