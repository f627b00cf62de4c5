package conntrack

import (
	"fmt"
	"math/bits"
	"os"
	"sync/atomic"
	"unsafe"

	"github.com/weirswitch/weir/internal/hugepage"
)

// memory is where a worker's connections, mappings and fragments are. A nil one is the process's alone. Else it is two files in memory, which a process that takes the
// switch over maps too (takeover.go). Nothing in them is a pointer.
//
//	table   slots | entries | aliases          each from a huge page's bound on
//	cells   heads | ports' fragments ... | outside addresses ...
//
// A port's cell has fragments and following; an outside address's has owners, free and the mappings by kind. Cells are mapped as they are first used, by the port's number and
// the outside address's, and stay: the file has no memory where nothing was written.
type memory struct {
	table, cells *hugepage.File
	ports        []portCell
	outside      [][]byte              // by number in nat.outside
	fault        atomic.Pointer[error] // why some of it is the process's alone, after all; others read it
}

// fail notes why some memory is the process's alone.
func (m *memory) fail(err error) {
	if err != nil {
		m.fault.Store(&err)
	}
}

// failed is nil as long as all memory is shared.
func (m *memory) failed() error {
	if err := m.fault.Load(); err != nil {
		return *err
	}
	return nil
}

type portCell struct{ fragments, following fragments }

// Where things are in the files.
const (
	cellUnit     = 64 << 10
	fragmentSize = fragmentSets * int(unsafe.Sizeof(fragmentSet{}))
	portCellSize = (2*fragmentSize + cellUnit - 1) / cellUnit * cellUnit
	portCells    = cellUnit // behind the heads
	portNumbers  = 1 << 16
	outsideCells = portCells + portNumbers*portCellSize
	outsideSize  = 2 << 20
	maxCells     = 1 << 14 // of outside addresses: what a handle has room for
)

// newMemory makes the files.
func newMemory(huge bool) *memory {
	m := &memory{}
	var err error
	if huge {
		m.table, err = hugepage.NewFile("weir-connections", true)
	}
	if m.table == nil {
		m.table, err = hugepage.NewFile("weir-connections", false)
	}
	if err == nil {
		m.cells, err = hugepage.NewFile("weir-mappings", false)
	}
	m.fail(err)
	return m
}

// files are the descriptors that another process needs.
func (m *memory) files() []*os.File { return []*os.File{m.table.File(), m.cells.File()} }

// slotsFor is how many slots a table of so many connections has.
func slotsFor(connections int, natted bool) int {
	keys := connections
	if natted {
		keys *= 2
	}
	return 1 << bits.Len(uint(2*keys-1))
}

// sizes are those of a table's three parts in its file.
func sizes(connections int, natted bool) (slots, entries, aliases int) {
	round := func(n int) int { return (n + hugepage.Size - 1) &^ (hugepage.Size - 1) }
	slots = round(8 * slotsFor(connections, natted))
	entries = round(int(unsafe.Sizeof(entry{})) * connections)
	if natted {
		aliases = round(int(unsafe.Sizeof(alias{})) * connections)
	}
	return slots, entries, aliases
}

// arrays are those of a table.
type arrays struct {
	slots   []uint64
	entries []entry
	aliases []alias // by number; nil: nothing is translated
}

// arrays makes those of a table.
func (m *memory) arrays(connections int, natted bool) (a arrays) {
	if m != nil && m.failed() == nil {
		a, err := m.mapArrays(connections, natted)
		if err != nil && m.table.Huge() { // too few are reserved
			if m.table, err = hugepage.NewFile("weir-connections", false); err == nil {
				a, err = m.mapArrays(connections, natted)
			}
		}
		if err == nil {
			return a
		}
		m.fail(err)
	}
	a = arrays{slots: hugepage.Make[uint64](slotsFor(connections, natted)), entries: hugepage.Make[entry](connections)}
	if natted {
		a.aliases = hugepage.Make[alias](connections)
	}
	return a
}

func (m *memory) mapArrays(connections int, natted bool) (a arrays, err error) {
	slots, entries, aliases := sizes(connections, natted)
	all, err := m.table.Map(0, slots+entries+aliases, true)
	if err != nil {
		return a, err
	}
	a.slots = hugepage.View[uint64](all, slotsFor(connections, natted))
	a.entries = hugepage.View[entry](all[slots:], connections)
	if natted {
		a.aliases = hugepage.View[alias](all[slots+entries:], connections)
	}
	return a, nil
}

// cell maps one of the cells. Where that fails, the caller's memory is the process's alone, and the switch cannot be taken over any more.
func (m *memory) cell(offset int64, size int) []byte {
	if m == nil || m.failed() != nil {
		return nil
	}
	all, err := m.cells.Map(offset, size, false)
	if err != nil {
		m.fail(err)
		return nil
	}
	return all
}

// heads makes those of a nat.
func (m *memory) heads() []uint32 {
	if all := m.cell(0, 4*natHeads); all != nil {
		return hugepage.View[uint32](all, natHeads)
	}
	return make([]uint32, natHeads)
}

// fragments makes those of a port, or finds them. Where nothing is steered, none follow.
func (m *memory) fragments(port int, steered bool) portCell {
	if m != nil && port < len(m.ports) {
		return m.ports[port]
	}
	if all := m.cell(int64(portCells+port*portCellSize), 2*fragmentSize); all != nil {
		c := portCell{hugepage.View[fragmentSet](all, fragmentSets), hugepage.View[fragmentSet](all[fragmentSize:], fragmentSets)}
		m.ports = append(m.ports, c)
		return c
	}
	c := portCell{fragments: make(fragments, fragmentSets)}
	if steered {
		c.following = make(fragments, fragmentSets)
	}
	return c
}

// outsideArrays makes what the outside address of a number has, or finds it; fresh: it is zero.
func (m *memory) outsideArrays(number int, o *outside, fresh bool) {
	all := m.outsideCell(number)
	if all == nil {
		o.owners, o.free = make([]block, o.blocks), make([]uint16, o.blocks)
		for k := range o.mappings {
			o.mappings[k] = hugepage.Make[mapping](int(o.blocks * o.size))
		}
		return
	}
	n := int(o.blocks * o.size)
	at := int(o.blocks) * int(unsafe.Sizeof(block{}))
	o.owners = hugepage.View[block](all, int(o.blocks))
	o.free = hugepage.View[uint16](all[at:], int(o.blocks))
	at = (at + 2*int(o.blocks) + 63) &^ 63
	for k := range o.mappings {
		o.mappings[k] = hugepage.View[mapping](all[at:], n)
		at += n * int(unsafe.Sizeof(mapping{}))
	}
	if fresh {
		clear(all[:at]) // another address had it
	}
}

func (m *memory) outsideCell(number int) []byte {
	if m == nil || m.failed() != nil {
		return nil
	}
	if number >= maxCells {
		m.fail(fmt.Errorf("%d outside addresses had mappings at once", number))
		return nil
	}
	for len(m.outside) <= number {
		m.outside = append(m.outside, nil)
	}
	if m.outside[number] == nil {
		m.outside[number] = m.cell(int64(outsideCells+number*outsideSize), outsideSize)
	}
	return m.outside[number]
}
