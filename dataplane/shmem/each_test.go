package shmem

import (
	"bytes"
	"math/rand/v2"
	"testing"
	"unsafe"
)

// TestEach: packets of all lengths are copied whole, in both directions, and nothing around them is touched.
func TestEach(t *testing.T) {
	const slot, edge = 512, 64
	random := rand.New(rand.NewPCG(1, 1))
	for round := range 2000 {
		n := 1 + random.IntN(20)
		source, target, want := make([]byte, n*slot), make([]byte, n*slot), make([]byte, n*slot)
		for i := range source {
			source[i], target[i] = byte(random.Uint32()), byte(random.Uint32())
		}
		copy(want, target)
		at, other, lengths := make([]uint64, n), make([]unsafe.Pointer, n), make([]uint32, n)
		memory, peer := target, source
		if round%2 != 0 {
			memory, peer = source, target
		}
		for i, k := range random.Perm(n) {
			lengths[i] = uint32(random.IntN(200))
			from, to := uint64(i*slot+random.IntN(edge)), uint64(k*slot+random.IntN(edge))
			copy(want[to:], source[from:][:lengths[i]])
			if at[i], other[i] = to, unsafe.Pointer(&peer[from]); round%2 != 0 {
				at[i], other[i] = from, unsafe.Pointer(&peer[to])
			}
		}
		if round%2 == 0 {
			GetEach(memory, at, other, lengths)
		} else {
			PutEach(memory, at, other, lengths)
		}
		if !bytes.Equal(target, want) {
			t.Fatalf("round %d: lengths %d are not copied as they are", round, lengths)
		}
	}
	GetEach(nil, nil, nil, nil)
}

// TestEachBounds: a packet that is not in the memory is a panic, as with copy, and is not copied.
func TestEachBounds(t *testing.T) {
	memory, peer := make([]byte, 100), [64]byte{1}
	for name, each := range map[string]func([]byte, []uint64, []unsafe.Pointer, []uint32){"get": GetEach, "put": PutEach} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Error("copied")
				}
			}()
			each(memory, []uint64{40}, []unsafe.Pointer{unsafe.Pointer(&peer)}, []uint32{64})
		})
	}
}
