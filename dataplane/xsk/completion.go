package xsk

// Completion is the ring that returns sent frames.
type Completion struct{ consumer[uint64] }

// Pop takes up to len(addrs) frames back and returns how many. An address is the
// one that was sent, except that the kernel may have cleared its lowest bit
// (xsk_skb_destructor_get_addr): mask it with UMEM.Frame.
func (c *Completion) Pop(addrs []uint64) int {
	n := c.peek(addrs)
	if n > 0 {
		c.release(n)
	}
	return n
}
