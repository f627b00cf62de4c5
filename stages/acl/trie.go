package acl

import (
	"encoding/binary"
	"net/netip"
)

// trie maps IPv4 addresses to classes in at most three loads: by the first 16 bits, and
// by each byte behind where longer prefixes are. Each class is wherever it
// holds, so nothing is searched; bart is slower and far smaller, and has IPv6
// and what is too much for a trie. It is immutable once built.
//
// An entry is a class, or the number of a chunk with the lowest bit set.
type trie struct {
	root   []uint32
	chunks [][256]uint32
}

const (
	// trieFrom is the number of prefixes from which a trie pays its memory.
	trieFrom = 64
	// maxChunks bounds a trie to 4 MiB.
	maxChunks = 4096
)

func newTrie() *trie { return &trie{root: make([]uint32, 1<<16)} }

// lookup returns the class of an address, 0 if no prefix holds it.
func (t *trie) lookup(a netip.Addr) uint32 {
	four := a.As4()
	v := binary.BigEndian.Uint32(four[:])
	e := t.root[v>>16]
	if e&1 != 0 {
		e = t.chunks[e>>1][v>>8&255]
		if e&1 != 0 {
			e = t.chunks[e>>1][v&255]
		}
	}
	return e >> 1
}

// insert adds a prefix that is no shorter than all before. It reports whether there is room.
func (t *trie) insert(p netip.Prefix, class uint32) bool {
	four := p.Addr().As4()
	v := binary.BigEndian.Uint32(four[:])
	level, index, rest := t.root, v>>16, 16-p.Bits()
	for shift := 8; rest < 0; shift -= 8 {
		chunk, ok := t.chunk(level, index)
		if !ok {
			return false
		}
		level, index, rest = t.chunks[chunk][:], v>>shift&255, rest+8
	}
	for i := range level[index : index+1<<rest] {
		level[int(index)+i] = class << 1
	}
	return true
}

// chunk returns the chunk below an entry, which it makes if there is none.
func (t *trie) chunk(level []uint32, index uint32) (n uint32, ok bool) {
	e := level[index]
	if e&1 != 0 {
		return e >> 1, true
	}
	if len(t.chunks) == maxChunks {
		return 0, false
	}
	var fresh [256]uint32
	for i := range fresh {
		fresh[i] = e
	}
	n = uint32(len(t.chunks))
	level[index] = n<<1 | 1 // before append moves the chunk that level is of
	t.chunks = append(t.chunks, fresh)
	return n, true
}
