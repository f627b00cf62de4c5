package conntrack

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"os"
	"reflect"
	"slices"
	"sync"

	"github.com/weirswitch/weir/internal/hugepage"
	"github.com/weirswitch/weir/pipeline"
)

var _ pipeline.Handed = (*Module)(nil)

// This file hands the connections over to another process (decision 33). What is in memory (memory.go) stays where it is; what is beside it, as the heads of lists, crosses
// when the workers rest, some kilobytes whatever the number of connections.
//
// The new process checks every index of the memory while the old one uses it: each is a word that is within its bounds at all times, so the check refuses no good memory,
// and what changes after it is written by the old process's code, which has the same layout. With the audit, all that the memory says is held against
// each other while both rest.

// layoutVersion grows with what values mean; that the types are the same is in layout.
const layoutVersion = 1

// layout identifies what is in the memory: all types, with their fields, and sizes.
var layout = func() uint64 {
	h := fnv.New64a()
	var add func(t reflect.Type)
	add = func(t reflect.Type) {
		fmt.Fprintf(h, "%s %d %d|", t.Kind(), t.Size(), t.Align())
		switch t.Kind() {
		case reflect.Struct:
			for i := range t.NumField() {
				fmt.Fprintf(h, "%s %d ", t.Field(i).Name, t.Field(i).Offset)
				add(t.Field(i).Type)
			}
		case reflect.Array:
			fmt.Fprintf(h, "%d ", t.Len())
			add(t.Elem())
		}
	}
	for _, v := range []any{entry{}, alias{}, block{}, mapping{}, fragmentSet{}, restTable{}, restShare{}, restOutside{}} {
		add(reflect.TypeOf(v))
	}
	fmt.Fprint(h, layoutVersion, numStates, natKinds, natHeads, maxProbes, fragmentSets, portCells, portCellSize, outsideCells, outsideSize, tickShift, hashRange)
	return h.Sum64()
}()

// offered is what Share says of the memory.
type offered struct {
	Layout      uint64     `json:"layout"`
	Connections int        `json:"connections"`
	Natted      bool       `json:"natted"`
	Seed        hashSeed   `json:"seed"`   // of the module
	Tables      []hashSeed `json:"tables"` // of each worker's
	Names       []string   `json:"names"`  // of ports by number
	Generation  uint16     `json:"generation"`
}

// What AppendRest says of a worker, in the byte order of the machine that both run on, and after it of its shares and outside addresses.
type (
	restTable struct {
		Swept               int64
		Free, Used, Sweeper uint32
		Shares, Outside     uint32 // how many follow
		_                   uint32
	}
	restShare struct {
		Used, Head, Tail, Unconfirmed uint32
	}
	restOutside struct {
		Addr, Size, Blocks, FreeHead, FreeLen, Owned, Used uint32
		Low                                                uint16
		Retired                                            bool
		_                                                  uint8
	}
)

// Share implements pipeline.Handed.
func (m *Module) Share() (state []byte, files []*os.File, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	v := m.settings.Load()
	o := offered{Layout: layout, Connections: m.config.Connections, Natted: m.natted, Seed: m.seed, Names: v.names, Generation: v.generation}
	for _, s := range m.stages {
		if s.memory == nil {
			return nil, nil, errors.New("its connections are in memory of this process alone: control.takeover was not set when it started")
		}
		if err := s.memory.failed(); err != nil {
			return nil, nil, fmt.Errorf("its connections are in memory of this process alone: %w", err)
		}
		o.Tables = append(o.Tables, s.table.seed)
		files = append(files, s.memory.files()...)
	}
	state, err = json.Marshal(o)
	return state, files, err
}

// taken is what another process's module shares.
type taken struct {
	offered
	tables []takenTable
}

type takenTable struct {
	arrays
	seed   hashSeed
	memory *memory
	mapped [][2]uint16 // the lowest and the highest port of each outside address that a connection had, as bounds saw them
	rest   *rest       // of Enter
}

// rest is what a worker's table has beside the memory.
type rest struct {
	restTable
	shares  []restShare
	outside []outside
}

// Take implements pipeline.Handed.
func (m *Module) Take(state []byte, files []*os.File) error {
	defer func() {
		for _, f := range files { // those that no memory has
			if f != nil {
				_ = f.Close()
			}
		}
	}()
	t := &taken{}
	if err := json.Unmarshal(state, &t.offered); err != nil {
		return fmt.Errorf("what was offered: %w", err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.same(&t.offered, len(files)); err != nil {
		return err
	}
	for w, seed := range t.offered.Tables {
		own := &memory{}
		var err error
		own.table, err = hugepage.OpenFile(files[2*w])
		if files[2*w] = nil; err != nil {
			return err
		}
		own.cells, err = hugepage.OpenFile(files[2*w+1])
		if files[2*w+1] = nil; err != nil {
			return err
		}
		t.tables = append(t.tables, takenTable{seed: seed, memory: own})
	}
	m.natted, m.seed = t.Natted, t.Seed
	errs := make([]error, len(t.tables))
	var all sync.WaitGroup
	for w := range t.tables {
		all.Go(func() { errs[w] = t.tables[w].open(&t.offered, w) })
	}
	all.Wait()
	m.taken = t
	return errors.Join(errs...)
}

// same refuses what this module cannot go on with, as a reload of its configuration would.
func (m *Module) same(o *offered, files int) error {
	switch {
	case o.Layout != layout:
		return fmt.Errorf("connections are laid out otherwise there (%x) than here (%x): the two programs are of different versions: restart the switch", o.Layout, layout)
	case o.Connections != m.config.Connections:
		return fmt.Errorf("connections is %d there and %d here: the table is taken over as it is: choose the same, or restart the switch", o.Connections, m.config.Connections)
	case m.natted && !o.Natted:
		return errors.New("snat, dnat: the table that is taken over has no room for translated connections, as the switch began without such rules: restart it")
	case len(o.Tables) != m.workers || files != 2*m.workers:
		return fmt.Errorf("%d tables in %d files were offered for %d workers", len(o.Tables), files, m.workers)
	case len(o.Names) > portNumbers:
		return fmt.Errorf("%d ports were offered", len(o.Names))
	}
	return nil
}

// open maps what the files have, and checks its indexes.
func (t *takenTable) open(o *offered, w int) error {
	connections := o.Connections / len(o.Tables)
	slots, entries, aliases := sizes(connections, o.Natted)
	if has, err := t.memory.table.Has(int64(slots + entries + aliases)); err != nil || !has {
		return errors.Join(fmt.Errorf("the table of worker %d is smaller than its %d connections", w, connections), err)
	}
	var err error
	if t.arrays, err = t.memory.mapArrays(connections, o.Natted); err != nil {
		return err
	}
	for port := range o.Names {
		end := int64(portCells + (port+1)*portCellSize)
		if has, err := t.memory.cells.Has(end); err != nil || !has {
			break // not made yet
		}
		t.memory.fragments(port, true)
	}
	if err := t.memory.failed(); err != nil {
		return err
	}
	if err := t.bounds(o); err != nil {
		return fmt.Errorf("the table of worker %d: %w", w, err)
	}
	return nil
}

// bounds checks each index of the memory while the other process uses it.
func (t *takenTable) bounds(o *offered) error {
	n := uint32(len(t.entries))
	index := func(at uint32) bool { return at == none || at < n }
	empty := 0
	for _, s := range t.slots {
		switch low := uint32(s); {
		case s == 0:
			empty++
		case low&^aliasBit == 0 || low&^aliasBit > n, low&aliasBit != 0 && t.aliases == nil:
			return fmt.Errorf("slot %x names no connection", s)
		}
	}
	if empty < len(t.slots)/4 { // half of them, and what changes meanwhile
		return fmt.Errorf("%d of %d slots are empty", empty, len(t.slots))
	}
	for i := range t.entries { // free ones too: they have what is in range
		e := &t.entries[i]
		if !index(e.prev) || !index(e.next) || !e.portsWithin(len(o.Names)) || e.state >= numStates {
			return fmt.Errorf("connection %d: its neighbours are %d and %d, its ports %d, %d and %d of %d, state %d", i, e.prev, e.next, e.payer, e.inPort, e.replyPort, len(o.Names), e.state)
		}
	}
	for i := range t.aliases {
		if t.entries[i].flags&(flagInUse|flagTranslated) != flagInUse|flagTranslated {
			continue
		}
		for _, h := range [...]handle{t.aliases[i].snat, t.aliases[i].dnat} {
			number, port := int(h>>18), uint16(h)
			if h == noHandle || port == 0 { // 0: not written yet
				continue
			}
			if h>>16&3 >= natKinds {
				return fmt.Errorf("connection %d: its mapping is %x", i, uint32(h))
			}
			for len(t.mapped) <= number {
				t.mapped = append(t.mapped, [2]uint16{1<<16 - 1, 0})
			}
			r := &t.mapped[number]
			r[0], r[1] = min(r[0], port), max(r[1], port)
		}
	}
	for _, c := range t.memory.ports {
		for i := range c.following {
			for k := range c.following[i] {
				if int(c.following[i][k].home) >= len(o.Tables) {
					return fmt.Errorf("a datagram goes to worker %d of %d", c.following[i][k].home, len(o.Tables))
				}
			}
		}
	}
	return nil
}

// portsWithin reports whether a connection's ports are some of so many. Memory that had no connection yet has port 0.
func (e *entry) portsWithin(n int) bool {
	n = max(n, 1)
	return int(e.payer) < n && int(e.inPort) < n && (int(e.replyPort) < n || e.replyPort == noPort || e.replyPort == gonePort)
}

// table is that of the stage that goes on, without its lists.
func (t *takenTable) table(translator *nat) *table {
	return &table{arrays: t.arrays, mask: uint32(len(t.slots) - 1), seed: t.seed, nat: translator}
}

// AppendRest implements pipeline.Handed.
func (m *Module) AppendRest(dst []byte) ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, s := range m.stages {
		if err := s.memory.failed(); err != nil {
			return nil, err
		}
		var err error
		if dst, err = s.appendRest(dst); err != nil {
			return nil, err
		}
	}
	return dst, nil
}

func (s *stage) appendRest(dst []byte) ([]byte, error) {
	t := s.table
	head := restTable{Swept: s.swept, Free: t.free, Used: t.used, Sweeper: t.sweeper, Shares: uint32(len(t.shares))}
	shares := make([]restShare, len(t.shares))
	for i := range t.shares {
		h := &t.shares[i]
		shares[i] = restShare{h.used, h.head, h.tail, h.unconfirmed}
	}
	var all []restOutside
	if s.nat != nil {
		for i := range s.nat.outside {
			o := &s.nat.outside[i]
			all = append(all, restOutside{Addr: o.addr, Size: o.size, Blocks: o.blocks, FreeHead: o.freeHead, FreeLen: o.freeLen, Owned: o.owned, Used: o.used,
				Low: o.low, Retired: o.retired})
		}
	}
	head.Outside = uint32(len(all))
	var err error
	for _, v := range []any{head, shares, all} {
		if dst, err = binary.Append(dst, binary.NativeEndian, v); err != nil {
			return nil, err
		}
	}
	return dst, nil
}

var errRest = errors.New("the state of the workers is cut off")

// Enter implements pipeline.Handed.
func (m *Module) Enter(state []byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.taken == nil {
		return errors.New("no table was taken over")
	}
	for w := range m.taken.tables {
		t := &m.taken.tables[w]
		var err error
		if state, err = t.enter(state, len(m.taken.Names)); err != nil {
			return fmt.Errorf("the table of worker %d: %w", w, err)
		}
		m.stages[w].install(t.rest)
	}
	if len(state) != 0 {
		return fmt.Errorf("%d bytes are more than the state of the workers", len(state))
	}
	if !m.env.Audit {
		return nil
	}
	for w, s := range m.stages {
		if err := s.table.audit(w); err != nil {
			return fmt.Errorf("the table of worker %d: %w", w, err)
		}
	}
	return nil
}

// enter reads and checks what a worker's table has beside the memory.
func (t *takenTable) enter(state []byte, names int) (left []byte, err error) {
	r := &rest{}
	read := func(v any) {
		if err == nil {
			var n int
			if n, err = binary.Decode(state, binary.NativeEndian, v); err != nil {
				err = errRest
			}
			state = state[n:]
		}
	}
	if read(&r.restTable); err != nil {
		return nil, err
	}
	if int(r.Shares) > portNumbers || int(r.Outside) > maxCells {
		return nil, fmt.Errorf("%d ports and %d outside addresses", r.Shares, r.Outside)
	}
	r.shares = make([]restShare, r.Shares)
	all := make([]restOutside, r.Outside)
	read(r.shares)
	if read(all); err != nil {
		return nil, err
	}
	n := uint32(len(t.entries))
	index := func(at uint32) bool { return at == none || at < n }
	used := uint64(0)
	for i, h := range r.shares {
		used += uint64(h.Used)
		if !index(h.Head) || !index(h.Tail) || h.Unconfirmed > h.Used || (h.Unconfirmed == 0) != (h.Head == none) || (h.Head == none) != (h.Tail == none) {
			return nil, fmt.Errorf("what port %d has: %+v", i, h)
		}
	}
	if !index(r.Free) || r.Used > n || used != uint64(r.Used) || (r.Free == none) != (r.Used == n) || r.Sweeper >= n || int(r.Shares) > names {
		return nil, fmt.Errorf("its ports have %d connections: %+v", used, r.restTable)
	}
	if t.aliases == nil && len(all) != 0 {
		return nil, fmt.Errorf("it has no mappings, and %d outside addresses", len(all))
	}
	for i := range all {
		if err := t.enterOutside(r, i, &all[i]); err != nil {
			return nil, err
		}
	}
	for number, ports := range t.mapped {
		if ports[1] == 0 {
			continue
		}
		if number >= len(r.outside) {
			return nil, fmt.Errorf("connections have mappings of outside address %d of %d", number, len(r.outside))
		}
		o := &r.outside[number] // it may have ended since
		if o.blocks != 0 && !(o.gives(ports[0]) && o.gives(ports[1])) {
			return nil, fmt.Errorf("connections have ports %d to %d of outside address %v, which does not give these out: try again", ports[0], ports[1], addrOf(o.addr))
		}
	}
	if err := t.chains(r); err != nil {
		return nil, err
	}
	t.rest = r
	return state, nil
}

// chains checks that each block that has an owner is in one chain, which ends.
func (t *takenTable) chains(r *rest) error {
	if t.aliases == nil {
		return nil
	}
	owned := 0
	for i := range r.outside {
		for b := range r.outside[i].owners {
			if r.outside[i].owners[b].owner != 0 {
				owned++
			}
		}
	}
	n := nat{outside: r.outside}
	for _, link := range t.memory.heads() {
		for ; link != 0; owned-- {
			if at := int(link-1) >> 16; at >= len(r.outside) || (link-1)&0xffff >= r.outside[at].blocks || owned == 0 {
				return fmt.Errorf("a chain of blocks goes to %x", link-1)
			}
			_, b := n.blockAt(link - 1)
			link = b.next
		}
	}
	if owned != 0 {
		return fmt.Errorf("%d blocks with an owner are in no chain", owned)
	}
	return t.memory.failed()
}

// enterOutside maps what an outside address has, and checks it.
func (t *takenTable) enterOutside(r *rest, number int, in *restOutside) error {
	o := outside{retired: in.Retired}
	if in.Blocks != 0 {
		spec := outsideSpec{addr: in.Addr, low: in.Low, size: in.Size, blocks: in.Blocks}
		bad := in.Size < minBlock || in.Size > maxBlock || in.Size&(in.Size-1) != 0 || in.Blocks > 1<<16/minBlock || uint64(in.Low)+uint64(in.Size)*uint64(in.Blocks) > 1<<16 ||
			in.FreeHead >= in.Blocks || in.FreeLen > in.Owned || in.Owned > in.Blocks || in.Used > natKinds*in.Size*in.Blocks
		if bad {
			return fmt.Errorf("what outside address %v has: %+v", addrOf(in.Addr), *in)
		}
		o = outside{outsideSpec: spec, retired: in.Retired, freeHead: in.FreeHead, freeLen: in.FreeLen, owned: in.Owned, used: in.Used}
		t.memory.outsideArrays(number, &o, false)
		if err := t.memory.failed(); err != nil {
			return err
		}
		for b := range o.owners {
			w := &o.owners[b]
			if int(w.port) >= len(r.shares) && w.owner != 0 || uint32(o.free[b]) >= o.blocks {
				return fmt.Errorf("what block %d of outside address %v has: %+v", b, addrOf(in.Addr), *w)
			}
		}
	} else if in.Used != 0 || !in.Retired {
		return fmt.Errorf("what outside address %v has: %+v", addrOf(in.Addr), *in)
	}
	r.outside = append(r.outside, o)
	return nil
}

// install gives a stage's table what it has beside the memory, and changes nothing of that.
func (s *stage) install(r *rest) {
	t := s.table
	t.free, t.used, t.sweeper, s.swept = r.Free, r.Used, r.Sweeper, r.Swept
	t.shares = make([]share, len(r.shares))
	for i, h := range r.shares {
		t.shares[i] = share{used: h.Used, head: h.Head, tail: h.Tail, unconfirmed: h.Unconfirmed}
	}
	if s.nat != nil {
		s.nat.outside = r.outside
		s.nat.rules = []natUse{{byPort: make([]uint32, len(r.shares))}} // adopt counts anew
	}
}

// Begin implements pipeline.Handed. What the new configuration means for connections is what a reload of it would: each is decided about anew with its next packet.
func (m *Module) Begin() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.taken == nil {
		return
	}
	v := *m.settings.Load()
	v.generation = m.taken.Generation + 1
	m.settings.Store(&v)
	var all sync.WaitGroup
	for _, s := range m.stages {
		all.Go(func() { s.start(m.taken.Names, &v) })
	}
	all.Wait()
	m.taken = nil
}

// start goes on with the table of a process whose ports had the names.
func (s *stage) start(names []string, v *settings) {
	to := make([]int, len(names))
	same := true
	for i, name := range names {
		to[i] = -1
		if name != "" {
			to[i] = slices.Index(v.names, name)
		}
		same = same && to[i] == i
	}
	if !same {
		s.renumber(to, len(v.names))
	}
	s.adopt(v)
	if !same { // datagrams were by port, too
		for i := range s.fragments {
			clear(s.fragments[i])
			clear(s.following[i])
		}
	}
}

// gonePort is the port of an answer that came by a port that there is no more.
const gonePort = noPort - 1

// renumber gives connections the ports' numbers here: to by those of the other process, -1 for a port that there is no more, whose connections end. It reads the whole table,
// so it is done where the numbers differ alone: after ports came or went by a reload.
func (s *stage) renumber(to []int, ports int) {
	t := s.table
	gone := func(port uint16) bool { return int(port) >= len(to) || to[port] < 0 }
	for i := range t.entries {
		e := &t.entries[i]
		switch {
		case e.flags&flagInUse == 0:
		case gone(e.payer) || gone(e.inPort):
			t.remove(uint32(i))
		case e.replyPort == noPort:
		case gone(e.replyPort):
			e.replyPort = gonePort
		default:
			e.replyPort = uint16(to[e.replyPort])
		}
	}
	for i := range t.entries { // remove needs the old numbers
		if e := &t.entries[i]; e.flags&flagInUse != 0 {
			e.payer, e.inPort = uint16(to[e.payer]), uint16(to[e.inPort])
		} else {
			e.payer, e.inPort, e.replyPort = 0, 0, 0 // bounds reads them, too
		}
	}
	before := t.shares
	t.shares = make([]share, ports)
	for i := range t.shares {
		t.shares[i] = share{head: none, tail: none}
	}
	for i := range before {
		if i < len(to) && to[i] >= 0 {
			t.shares[to[i]] = before[i]
		}
	}
	if s.nat == nil {
		return
	}
	for k := range s.nat.outside {
		for b := range s.nat.outside[k].owners {
			w := &s.nat.outside[k].owners[b]
			if w.owner == 0 {
				continue
			}
			if gone(w.port) {
				w.port = 0 // connections from another port have it
			} else {
				w.port = uint16(to[w.port])
			}
		}
	}
}

// Left implements pipeline.Handed: the stages go on with empty tables of this process's own memory.
func (m *Module) Left() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, s := range m.stages {
		counters := s.table.shares
		s.memory, s.fragments, s.following = nil, nil, nil
		if s.nat != nil {
			s.nat = newNAT(m.seed[3], s.worker, m.workers, nil)
		}
		s.table = newTable(minConnections, s.table.seed, s.nat, nil)
		s.adopt(s.settings)
		for i := range min(len(counters), len(s.table.shares)) {
			s.table.shares[i].shareCounters = counters[i].shareCounters
		}
	}
}
