package conntrack

import (
	"github.com/weirswitch/weir/pipeline/header"
)

// nat has the mappings of one worker: which inside address and port has which outside ones. Nothing else reads or writes it.
//
// The ports of an outside address are divided into blocks. A block is of one inside address, for TCP, UDP and queries of ICMP alike, as long as it has a
// mapping. All blocks of an inside address are of one outside address (paired, RFC 4787, 4.1). A mapping is found from the inside port: its search
// begins at the port of the block with the same low bits, and goes on by even steps first, so that ports keep their parity.
type nat struct {
	outside []outside
	rules   []natUse
	heads   []uint32 // blocks by a hash of their owner: block's number + 1
	seed    uint64

	worker, workers int // the worker's number, and how many divide the blocks
	memory          *memory
}

// natUse is what a rule's inside addresses have.
type natUse struct {
	order  []uint16 // the rule's outside addresses
	byPort []uint32 // blocks by the port whose inside addresses have them
}

// outside is one outside address.
type outside struct {
	outsideSpec
	retired  bool // no rule has it any more: it goes with its last block
	mappings [natKinds][]mapping
	owners   []block
	free     []uint16 // a queue, so that a block rests as long as possible before another inside address gets it
	freeHead uint32
	freeLen  uint32
	owned    uint32 // blocks that this worker gives out
	used     uint32 // mappings
}

// block is who has a block of ports.
type block struct {
	owner uint64 // 1 << 63 | zone << 32 | inside address; 0: free
	next  uint32 // in its chain of nat.heads
	used  [natKinds]uint16
	reach [natKinds]uint16 // how far the search for a mapping must go
	port  uint16           // which pays for it
	kept  int32            // connections that hold its mappings and are not evicted: confirmed ones, and those to its inside address from outside
}

// mapping is an outside port's inside port, and by how many connections it is used.
type mapping struct {
	port uint16
	refs uint32
}

// The kinds of ports.
const (
	natTCP = iota
	natUDP
	natICMP
	natKinds
)

func natKind(proto uint8) (kind int, ok bool) {
	switch proto {
	case header.ProtoTCP:
		return natTCP, true
	case header.ProtoUDP:
		return natUDP, true
	case header.ProtoICMP:
		return natICMP, true
	}
	return 0, false
}

// handle names a mapping: outside address << 18 | kind << 16 | port.
type handle uint32

const noHandle = ^handle(0)

func ownerOf(zone uint16, addr uint32) uint64 { return 1<<63 | uint64(zone)<<32 | uint64(addr) }

const natHeads = 1 << 13

func newNAT(seed uint64, worker, workers int, m *memory) *nat {
	return &nat{seed: seed | 1, heads: m.heads(), worker: worker, workers: workers, memory: m}
}

// adopt goes over to the outside addresses of new rules. An address that stays as it is keeps its mappings.
func (n *nat) adopt(v *natSettings, ports int) {
	for i := range n.outside {
		n.outside[i].retired = true
	}
	before := n.rules
	n.rules = make([]natUse, len(v.snat))
	for i := range n.rules {
		n.rules[i].byPort = make([]uint32, max(ports, maxPorts(before)))
	}
	for _, spec := range v.outside {
		at := n.place(spec)
		o := &n.outside[at]
		o.retired, o.rule = false, spec.rule
		u := &n.rules[spec.rule]
		u.order = append(u.order, uint16(at))
		for b := range o.owners {
			if o.owners[b].owner != 0 {
				u.byPort[o.owners[b].port]++
			}
		}
	}
	for i := range n.outside {
		n.outside[i].end()
	}
}

func maxPorts(rules []natUse) (most int) {
	for i := range rules {
		most = max(most, len(rules[i].byPort))
	}
	return most
}

// place returns where an outside address is, or makes it.
func (n *nat) place(spec outsideSpec) int {
	empty := -1
	for i := range n.outside {
		o := &n.outside[i]
		if o.addr == spec.addr && o.low == spec.low && o.size == spec.size && o.blocks == spec.blocks {
			return i
		}
		if o.retired && o.used == 0 {
			empty = i
		}
	}
	if empty < 0 {
		empty = len(n.outside)
		n.outside = append(n.outside, outside{})
	}
	o := outside{outsideSpec: spec}
	n.memory.outsideArrays(empty, &o, true)
	for b := range spec.blocks {
		if int(spec.owner(b, n.workers)) == n.worker {
			o.free[o.owned] = uint16(b)
			o.owned++
		}
	}
	o.freeLen = o.owned
	n.outside[empty] = o
	return empty
}

// byAddr returns the outside address in force, or nil.
func (n *nat) byAddr(addr uint32) (at int, o *outside) {
	for i := range n.outside {
		if n.outside[i].addr == addr && !n.outside[i].retired {
			return i, &n.outside[i]
		}
	}
	return 0, nil
}

// gives reports whether a port is among those that are given out.
func (o *outside) gives(port uint16) bool { return uint32(port)-uint32(o.low) < o.size*o.blocks }

// inside returns the inside address and port that have an outside port, or reports that none has.
func (o *outside) inside(kind int, port uint16, zone uint16) (addr uint32, inside uint16, ok bool) {
	at := uint32(port) - uint32(o.low)
	m, b := &o.mappings[kind][at], &o.owners[at/o.size]
	if m.refs == 0 || uint16(b.owner>>32) != zone {
		return 0, 0, false
	}
	return uint32(b.owner), m.port, true
}

func (n *nat) head(owner uint64) *uint32 {
	h := (owner ^ n.seed) * 0x9e3779b97f4a7c15
	return &n.heads[(h^h>>29)*n.seed>>32&(natHeads-1)]
}

// Blocks are numbered as outside address << 16 | block.
func (n *nat) blockAt(number uint32) (*outside, *block) {
	o := &n.outside[number>>16]
	return o, &o.owners[number&0xffff]
}

// probe is where the search for a port's mapping is after so many steps, in its block.
func (o *outside) probe(port uint16, step uint32) uint32 {
	if half := o.size / 2; step >= half {
		return (uint32(port) + 1 + 2*(step-half)) & (o.size - 1)
	}
	return (uint32(port) + 2*step) & (o.size - 1)
}

// maxProbes bounds the search in a block, which an inside host whose ports all begin at one place would make as long as the block.
const maxProbes = 128

// take gives an inside port a mapping in a block, which begins where step says, and is its one or a free one. The caller uses it, or goes on behind.
func (o *outside) take(b uint32, kind int, port uint16, step uint32, known bool) (at, steps uint32, ok bool) {
	last := min(o.size, maxProbes)
	if known {
		last = uint32(o.owners[b].reach[kind])
	}
	for ; step < last; step++ {
		at := b*o.size + o.probe(port, step)
		m := &o.mappings[kind][at]
		if known && m.refs != 0 && m.port == port || !known && m.refs == 0 {
			return at, step, true
		}
	}
	return 0, 0, false
}

// hold counts a connection of a mapping.
func (n *nat) hold(h handle) {
	o, kind, at := n.of(h)
	m := &o.mappings[kind][at]
	m.refs++
	if m.refs == 1 {
		b := &o.owners[at/o.size]
		b.used[kind]++
		o.used++
	}
}

func (n *nat) of(h handle) (o *outside, kind int, at uint32) {
	o = &n.outside[h>>18]
	return o, int(h >> 16 & 3), uint32(h&0xffff) - uint32(o.low)
}

func (o *outside) handle(number, kind int, at uint32) handle {
	return handle(number<<18|kind<<16) | handle(uint32(o.low)+at)
}

// keep counts the connections because of which eviction cannot free a mapping's block.
func (n *nat) keep(h handle, by int32) {
	if h != noHandle {
		o, _, at := n.of(h)
		o.owners[at/o.size].kept += by
	}
}

// release ends a connection's use of a mapping; with its last one the block is free.
func (n *nat) release(h handle) {
	if h == noHandle {
		return
	}
	o, kind, at := n.of(h)
	m := &o.mappings[kind][at]
	if m.refs--; m.refs != 0 {
		return
	}
	o.used--
	number := at / o.size
	b := &o.owners[number]
	if b.used[kind]--; b.used[kind] == 0 {
		b.reach[kind] = 0
	}
	if b.used != [natKinds]uint16{} {
		return
	}
	n.giveBack(uint32(h>>18)<<16 | number)
	o.end()
}

// end frees the memory of an outside address that no rule and no mapping has. Memory that is shared waits for the next address of the number.
func (o *outside) end() {
	if o.retired && o.used == 0 {
		*o = outside{retired: true}
	}
}

// giveBack frees a block.
func (n *nat) giveBack(number uint32) {
	o, b := n.blockAt(number)
	for link := n.head(b.owner); ; {
		next, at := n.blockAt(*link - 1)
		if next == o && at == b {
			*link = b.next
			break
		}
		link = &at.next
	}
	if !o.retired {
		n.rules[o.rule].byPort[b.port]--
	}
	*b = block{}
	o.free[(o.freeHead+o.freeLen)%o.blocks] = uint16(number)
	o.freeLen++
}

// newBlock gives an inside address another block of an outside address.
func (n *nat) newBlock(at int, owner uint64, port uint16) uint32 {
	o := &n.outside[at]
	b := o.free[o.freeHead]
	o.freeHead = (o.freeHead + 1) % o.blocks
	o.freeLen--
	head := n.head(owner)
	o.owners[b] = block{owner: owner, next: *head, port: port}
	number := uint32(at)<<16 | uint32(b)
	*head = number + 1
	n.rules[o.rule].byPort[port]++
	return number
}
