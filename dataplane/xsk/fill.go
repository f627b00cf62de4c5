package xsk

// Fill is the ring that gives empty frames to the kernel.
type Fill struct{ producer[uint64] }

// Push offers frames, by the address of any byte in them (the kernel clears the low bits,
// xp_aligned_extract_addr), and returns how many found room. The first of them are taken.
func (f *Fill) Push(addrs []uint64) int {
	n := f.room(len(addrs))
	if n > 0 {
		f.publish(addrs[:n])
	}
	return n
}
