package oblivious

import "math/bits"

// counted are a sampler's exact totals by class of protocol. The bytes of a class are the sum of eight parts, as
// wideClasses adds eight packets at once.
type counted struct {
	packets [classes]uint64
	bytes   [classes][8]uint64
}

// CountEach counts packets of a block, those whose bits are set in which, by class of protocol: by the protocols that keys have and the
// bytes that Insert is given, which is what all switches on a packet's path agree on. A sample whose packets are all counted so, beside
// Count, can be calibrated.
func (s *Sampler) CountEach(protos *[Block]uint8, bytes *[Block]uint32, which uint64) {
	if wide {
		wideClasses(&s.counted, protos, bytes, which)
	} else {
		s.counted.plain(protos, bytes, which)
	}
}

// plain does what wideClasses does.
func (c *counted) plain(protos *[Block]uint8, bytes *[Block]uint32, which uint64) {
	for ; which != 0; which &= which - 1 {
		i := bits.TrailingZeros64(which)
		class := classOf(protos[i])
		c.packets[class]++
		c.bytes[class][i%8] += uint64(bytes[i])
	}
}

// totals are all that was counted.
func (c *counted) totals() (out [classes]Totals) {
	for i := range out {
		out[i].Packets = c.packets[i]
		for _, n := range c.bytes[i] {
			out[i].Bytes += n
		}
	}
	return out
}
