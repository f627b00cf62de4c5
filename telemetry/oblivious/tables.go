package oblivious

// RankSeed is the member of the hash family that ranks are drawn from, for the
// tables of a P4 target: a packet is admitted if the hash of its id is at most
// Sampler.Limit, in samples of bytes if the hash over its bytes is.
func (c Config) RankSeed() uint64 { return c.rankSeed() }

// RankShift is by how many bits a hash exceeds the scale of ranks.
func (c Config) RankShift() uint8 { return newRanker(c).shift }
