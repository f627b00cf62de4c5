package encode

import "github.com/weirswitch/weir/telemetry/hash"

// Fragments is how many fragments of the given bits a value has: the paper's
// F = ceil(q / b).
func Fragments(valueBits, bits int) int { return (valueBits + bits - 1) / bits }

// Fragment is the number, from 0, of the fragment that the instance's digest
// of the packet carries; fragment 0 has the lowest bits.
func (s *Static) Fragment(id uint64, instance int) int {
	if s.Fragments == 1 {
		return 0
	}
	h := hash.Uint64(s.seeds[instance].number, id)
	if s.Hash == hash.CRC {
		h = s.Hash.Uint64(s.seeds[instance].number, id)
	}
	return int(hash.Reduce(h, uint64(s.Fragments)))
}
