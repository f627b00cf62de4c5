package shmem

import "unsafe"

// GetEach copies packets out of memory of another process: lengths[i] bytes at from[i] to mem[at[i]:]. Packets are short, so that what a call of copy costs
// for each of them is more than the copy.
func GetEach(mem []byte, at []uint64, from []unsafe.Pointer, lengths []uint32) {
	at, from = at[:len(lengths)], from[:len(lengths)]
	for i, n := range lengths {
		_ = mem[at[i]:][:n] // what does not fit is a fault of ours
	}
	for i := 0; i < len(lengths); i++ {
		if i += getShort(unsafe.SliceData(mem), &at[i], &from[i], &lengths[i], len(lengths)-i); i < len(lengths) {
			copy(mem[at[i]:][:lengths[i]], unsafe.Slice((*byte)(from[i]), lengths[i]))
		}
	}
}

// PutEach copies packets into memory of another process: lengths[i] bytes at mem[at[i]:] to to[i].
func PutEach(mem []byte, at []uint64, to []unsafe.Pointer, lengths []uint32) {
	at, to = at[:len(lengths)], to[:len(lengths)]
	for i, n := range lengths {
		_ = mem[at[i]:][:n]
	}
	for i := 0; i < len(lengths); i++ {
		if i += putShort(unsafe.SliceData(mem), &at[i], &to[i], &lengths[i], len(lengths)-i); i < len(lengths) {
			copy(unsafe.Slice((*byte)(to[i]), lengths[i]), mem[at[i]:][:lengths[i]])
		}
	}
}
