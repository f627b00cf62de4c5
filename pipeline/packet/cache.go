package packet

// cacheBulk is how many frames a cache takes from the pool at once, unless Bound
// says less.
const cacheBulk = 512

// Cache is a worker's stack of free frames. The frame freed last is allocated
// first: it is the one still warm in the processor's cache. Not safe for
// concurrent use; each worker has its own.
type Cache struct {
	pool  *Pool
	stack []uint64
	n     int
	limit int  // frames from which on Spill gives some away
	bulk  int  // frames taken from the pool at once
	short bool // see Short
}

// NewCache returns an empty cache of the pool's frames, without bound.
func (p *Pool) NewCache() *Cache {
	// A cache can hold every frame of the pool, so Free cannot fail.
	return &Cache{pool: p, stack: make([]uint64, p.Frames()), limit: p.Frames() + 1, bulk: cacheBulk}
}

// Bound keeps the cache from hoarding, to be called before its use: from limit
// free frames on (at least 4), Spill gives some to the pool, and a quarter of
// that is taken from the pool at once.
func (c *Cache) Bound(limit int) {
	c.limit = max(limit, 4)
	c.bulk = min(cacheBulk, c.limit/4)
}

// Pool returns the pool that the frames belong to.
func (c *Cache) Pool() *Pool { return c.pool }

// Len returns the number of free frames in the cache.
func (c *Cache) Len() int { return c.n }

// Short reports whether an Alloc got fewer frames than it wanted since Short was
// last asked. Other workers may give some soon.
func (c *Cache) Short() bool {
	short := c.short
	c.short = false
	return short
}

// Alloc takes up to len(dst) free frames, stores their base addresses in dst
// and returns how many it took: fewer only if the pool is empty or, for this
// moment, busy.
func (c *Cache) Alloc(dst []uint64) int {
	if c.n < len(dst) {
		c.refill(len(dst))
	}
	n := min(len(dst), c.n)
	c.short = c.short || n < len(dst)
	for i := range n {
		addr := c.stack[c.n-1-i]
		dst[i] = addr
	}
	c.n -= n
	if c.pool.audit != nil {
		for _, addr := range dst[:n] {
			c.pool.Move(addr, OwnerFree, OwnerWorker)
		}
	}
	return n
}

// AllocOne takes one free frame.
func (c *Cache) AllocOne() (addr uint64, ok bool) {
	var one [1]uint64
	if c.Alloc(one[:]) == 0 {
		return 0, false
	}
	return one[0], true
}

// refill brings the cache to at least want frames if the pool has them.
func (c *Cache) refill(want int) {
	want = min(max(want, c.bulk), len(c.stack)) - c.n
	if want <= 0 {
		return
	}
	c.n += c.pool.take(c.stack[c.n : c.n+want])
}

// Free gives a frame back, by the address of any byte in it.
func (c *Cache) Free(addr uint64) {
	addr = c.pool.Base(addr)
	if c.pool.audit != nil && !c.pool.Move(addr, OwnerWorker, OwnerFree) {
		return // a frame freed twice must not be given out twice
	}
	c.stack[c.n] = addr
	c.n++
}

// FreeAll gives back frames of packets that have no other.
func (c *Cache) FreeAll(addrs []uint64) {
	for _, addr := range addrs {
		c.Free(addr)
	}
}

// FreePacket gives back all frames of a packet.
func (c *Cache) FreePacket(p *Packet) {
	c.Free(p.Addr)
	if p.Next != 0 {
		c.freeChain(p.Next)
	}
}

func (c *Cache) freeChain(link uint32) {
	for link != 0 {
		addr, _, next := c.pool.Next(link)
		c.Free(addr)
		link = next
	}
}

// Spill hands all frames but half of the bound to the pool, where other workers
// find them, if there are as many as the bound. A worker calls it between
// batches; it does nothing if the pool is busy.
func (c *Cache) Spill() {
	if c.n < c.limit {
		return
	}
	// The bottom of the stack is the coldest; but moving the warm top down
	// costs a copy, and spilling is rare. Give the top.
	if keep := c.limit / 2; c.pool.give(c.stack[keep:c.n]) {
		c.n = keep
	}
}

// Close gives all frames back to the pool.
func (c *Cache) Close() {
	c.pool.mu.Lock()
	c.pool.free = append(c.pool.free, c.stack[:c.n]...)
	c.pool.mu.Unlock()
	c.n = 0
}
