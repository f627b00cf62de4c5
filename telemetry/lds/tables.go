package lds

// FlowSeed and PacketSeed are the seeds of the hashes that rows 2i and 2i+1 share,
// for the tables of a P4 target: the even row takes the high half of a hash, the odd one the
// low half. The digest that a cell adds up is the whole hash of the packet id under
// PacketSeed(0).
func (c Config) FlowSeed(i int) uint64 { return c.Seed + flowSeed + uint64(i) }

// PacketSeed is that of packet ids; see FlowSeed.
func (c Config) PacketSeed(i int) uint64 { return c.Seed + packetSeed + uint64(i) }

// Accepts are the rows' sampling rates as whole numbers: a row samples a packet whose 32 bits
// of hash, or what Virtual leaves of them, are less, from 1 to 2^32, which is all.
func (c Config) Accepts() []uint64 {
	accept := make([]uint64, c.Rows)
	for r, rate := range c.rates() {
		accept[r] = uint64(rate * (1 << 32))
	}
	return accept
}
