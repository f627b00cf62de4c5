package tables

import (
	"encoding/binary"
	"fmt"
	"math/bits"
	"net/netip"
	"slices"
)

// Contents are what a P4 switch needs before its first packet. Names are those of
// the program's controls, with the control in front: "ingress.forward.patch".
type Contents struct {
	Defaults  []Default
	Entries   []Entry
	Registers []Register
	// Epochs are the registers of the present epoch and of the next one, which the control
	// plane writes anew in each.
	Epochs  []Register
	Clones  []Clone
	Groups  []Group
	Digests []Digest

	schedules []func(now uint64) []Register
}

// EpochsAt are the registers of the epochs at a time in ns of CLOCK_TAI, as Epochs are of the time that
// the contents were made for. It costs next to nothing.
func (c *Contents) EpochsAt(now uint64) (all []Register) {
	for _, s := range c.schedules {
		all = append(all, s(now)...)
	}
	return all
}

// OnlyEpochs are the contents that change from epoch to epoch.
func (c *Contents) OnlyEpochs() *Contents { return &Contents{Epochs: c.Epochs} }

// registers are all of them.
func (c *Contents) registers() []Register { return slices.Concat(c.Registers, c.Epochs) }

// Default is the action of a table for packets that match no entry.
type Default struct {
	Table  string
	Action Action
}

// Entry is one entry of a table. Keys are in the order in which the program
// declares them.
type Entry struct {
	Table string
	Keys  []Key
	// Priority is set where the table has ternary keys or ranges: of several entries
	// that match, BMv2 takes the one with the lowest, from 1 on.
	Priority int
	Action   Action
}

// Action is the name of an action, with what it is given.
type Action struct {
	Name   string
	Params []Param
}

// Param is a parameter of an action.
type Param struct {
	Name  string
	Value Value
}

// Key is what one field of a table's key is compared with.
type Key struct {
	Field string
	Match Match
	Value Value
	// Mask is that of a Ternary key, Prefix the length of an LPM one in bits, and
	// High the end of a Range that begins at Value.
	Mask, High Value
	Prefix     int
}

// Match is how a field is compared.
type Match uint8

// The ways of comparing.
const (
	Exact Match = iota
	LPM
	Ternary
	Range
)

// Register is what one cell, or all cells, of a register array are set to.
type Register struct {
	Name  string
	Index int
	Value uint64
}

// Clone is a clone session, which copies packets to a port.
type Clone struct{ Session, Port int }

// Group is a multicast group. The last port's packet has the replication id 0: it
// counts as the packet itself, and the others, of id 1, as copies.
type Group struct {
	ID    int
	Ports []int
}

// nodes are the ports by replication id.
func (g *Group) nodes() (original, copies []int) {
	last := len(g.Ports) - 1
	return g.Ports[last:], g.Ports[:last]
}

// Digest is a kind of message to the control plane, by its name in the program.
// BMv2 sends them unasked; P4Runtime has them subscribed to.
type Digest struct{ Name string }

// Value is a number of up to 128 bits.
type Value struct{ High, Low uint64 }

// Number is a value of up to 64 bits.
func Number(n uint64) Value { return Value{Low: n} }

// oneBit is a value of one bit.
func oneBit(yes bool) Value {
	if yes {
		return Number(1)
	}
	return Number(0)
}

// address is an IP address as a value of 32 or 128 bits.
func address(a netip.Addr) Value {
	b := a.As16()
	if a.Is4() {
		return Number(uint64(binary.BigEndian.Uint32(b[12:])))
	}
	return Value{binary.BigEndian.Uint64(b[:8]), binary.BigEndian.Uint64(b[8:])}
}

// MAC is a MAC address as a value of 48 bits.
func MAC(m [6]byte) Value {
	return Number(uint64(binary.BigEndian.Uint16(m[:2]))<<32 | uint64(binary.BigEndian.Uint32(m[2:])))
}

// Bits is the length of the value without leading zeros, 0 for 0.
func (v Value) Bits() int {
	if v.High != 0 {
		return 64 + bits.Len64(v.High)
	}
	return bits.Len64(v.Low)
}

// String is the value in hexadecimal, as all writers of commands read it.
func (v Value) String() string {
	if v.High != 0 {
		return fmt.Sprintf("%#x%016x", v.High, v.Low)
	}
	return fmt.Sprintf("%#x", v.Low)
}

// bytes is the value in network byte order without leading zeros, one byte at
// least: P4Runtime's canonical form.
func (v Value) bytes() []byte {
	var b [16]byte
	binary.BigEndian.PutUint64(b[:8], v.High)
	binary.BigEndian.PutUint64(b[8:], v.Low)
	return b[min(16-(v.Bits()+7)/8, 15):]
}

// ones is a mask of the first n of width bits.
func ones(n, width int) Value {
	var v Value
	for i := width - n; i < width; i++ {
		if i < 64 {
			v.Low |= 1 << i
		} else {
			v.High |= 1 << (i - 64)
		}
	}
	return v
}

// exact, lpm and ternary make keys, action and param what is done with them.
func exact(field string, v Value) Key { return Key{Field: field, Value: v} }

func ternary(field string, v, mask Value) Key {
	return Key{Field: field, Match: Ternary, Value: v, Mask: mask}
}

func lpm(field string, p netip.Prefix) Key {
	return Key{Field: field, Match: LPM, Value: address(p.Addr()), Prefix: p.Bits()}
}

func act(name string, params ...Param) Action { return Action{name, params} }

func param(name string, v Value) Param { return Param{name, v} }
