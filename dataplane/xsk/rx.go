package xsk

// RX is the ring of received packets.
type RX struct{ consumer[Desc] }

// Pop takes up to len(descs) descriptors and returns how many. It never cuts a
// packet of several buffers, unless the packet alone is longer than descs: then it
// comes in parts, the last descriptor of each but the last part being Continued.
func (r *RX) Pop(descs []Desc) int {
	n := r.peek(descs)
	if n == 0 {
		return 0
	}
	if whole := wholePackets(descs[:n]); whole > 0 {
		n = whole
	}
	r.release(n)
	return n
}

// wholePackets returns how many of the descriptors belong to packets that end
// among them.
func wholePackets(descs []Desc) int {
	n := len(descs)
	for n > 0 && descs[n-1].Options&Continued != 0 {
		n--
	}
	return n
}
