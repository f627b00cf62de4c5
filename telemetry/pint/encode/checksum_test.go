package encode

import (
	"testing"

	"github.com/weirswitch/weir/telemetry/hash"
	"github.com/weirswitch/weir/telemetry/pint"
)

// TestChecksum: each path has its checksum whatever the packet and what is in its digest before, and other paths, those of the same switches in
// another order included, have others but for their share: of 19,900 pairs 0.3 have one of 16 bits in the mean, more than 6 with a probability below 1e-6.
func TestChecksum(t *testing.T) {
	for _, f := range hash.Families() {
		s, err := NewStep(&pint.Query{Aggregation: pint.Checksum, Bits: 16}, f, 5, SharedSeeds{})
		if err != nil {
			t.Fatal(err)
		}
		of := func(id, before uint64, path ...uint64) uint64 {
			d := before
			for i, v := range path {
				d = s.encode(id, i+1, 0, 0, d, v)
			}
			return d
		}
		seen, same := map[uint64]bool{}, 0
		for i := range uint64(100) {
			for _, path := range [][]uint64{{1, 10 + i, 200 + i, 3}, {1, 200 + i, 10 + i, 3}} {
				d := of(i, 0, path...)
				if d != of(i*7+1, 0xffff, path...) || d > 0xffff {
					t.Fatalf("%v: path %v has the checksums %x and %x", f, path, d, of(i*7+1, 0xffff, path...))
				}
				if seen[d] {
					same++
				}
				seen[d] = true
			}
		}
		if same > 6 {
			t.Errorf("%v: %d paths have another one's checksum", f, same)
		}
	}
}
