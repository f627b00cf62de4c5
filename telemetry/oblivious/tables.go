package oblivious

// RankSeed is the member of the hash family that ranks are drawn from, for the
// tables of a P4 target: a packet is admitted if the hash of its id is at most
// Sampler.Limit.
func (c Config) RankSeed() uint64 { return c.rankSeed() }
