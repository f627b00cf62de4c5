package l3

// cache remembers, for one worker, the targets of the destinations that it saw
// last, as long as the tables stay the same. A lookup among many routes misses
// the processor's caches several times; here it is at most once (see BenchmarkL3
// with 100,000 routes).
type cache struct {
	of      *tables
	entries [cacheSize]cacheEntry
}

// cacheEntry is the target of an address, nil if it is free. Only targets of
// kind forward are kept, so an IPv4 address, with all ones above it, cannot be
// taken for an IPv6 one, which would be multicast.
type cacheEntry struct {
	hi, lo uint64
	v      *target
	vrf    uint16
	_      [6]byte // two entries to a line
}

const (
	cacheBits = 12
	cacheSize = 1 << cacheBits // 128 KiB
	high4     = ^uint64(0)
)

// at returns the entry where an address of a VRF would be.
func (c *cache) at(hi, lo uint64, vrf uint16) *cacheEntry {
	return &c.entries[(lo^hi+uint64(vrf)<<32)*0x9e3779b97f4a7c15>>(64-cacheBits)]
}

// follow empties the cache if the tables are not those of which it knows.
func (c *cache) follow(t *tables) {
	if c.of != t {
		clear(c.entries[:])
		c.of = t
	}
}
