package bond

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/weirswitch/weir/pipeline"
	"github.com/weirswitch/weir/pipeline/packet"
	"github.com/weirswitch/weir/stages/bond/lacp"
)

// This file passes bonds to another process (weir switch --takeover): what LACP knows with its timers, which member is active, by which member each worker sends each
// bucket, and frames that wait to be sent. The stage distribute passes nothing itself.
//
// All of it is described while the workers rest: it is some kilobytes for a bond and a worker. What workers have received for LACP by then is in it.
// The other process's ports may have other numbers, so ports are named. LACP keeps its numbers: to partners nothing has changed.

var _ pipeline.Handed = (*Module)(nil)

// state is what another process needs.
type state struct {
	Bonds  []bondState  `json:"bonds"`
	Frames []frameState `json:"frames"` // to be sent
}

type bondState struct {
	Name     string        `json:"name"`
	Mode     string        `json:"mode"`
	Active   string        `json:"active,omitempty"` // of an active-backup bond
	Former   string        `json:"former,omitempty"`
	Until    time.Duration `json:"until,omitempty"` // is left of former's time
	Announce bool          `json:"announce,omitempty"`
	Changes  uint64        `json:"changes"`
	Members  []memberState `json:"members"`
	// By bucket, the index of the member in Members, or noMember: where it shall be, and by worker where it is.
	Targets []byte                `json:"targets"`
	Workers [][]byte              `json:"workers"`
	LACP    *lacp.AggregatorState `json:"lacp,omitempty"` // its ports are those of Members, in this order
}

type memberState struct {
	Name  string `json:"name"`
	Sends bool   `json:"sends"`
	Ends  uint64 `json:"ends"`
}

// frameState are frames that leave by a port, which is a member, or was one.
type frameState struct {
	Port   string   `json:"port"`
	Frames [][]byte `json:"frames"`
}

const (
	noMember = 0xff
	// maxFrames bounds the frames that wait for a port: announcements of a change of the active member, and answers of LACP, which are rare.
	maxFrames = maxAnnounced + 256
	// What a frame may have: that of Ethernet, and of the switch's own frames, which have no payload but a small one.
	minFrame, maxFrame = 14, 1518
)

// Share implements pipeline.Handed: all of it is the rest.
func (m *Module) Share() ([]byte, []*os.File, error) { return nil, nil, nil }

// Take implements pipeline.Handed.
func (m *Module) Take(state []byte, files []*os.File) error {
	for _, f := range files {
		_ = f.Close()
	}
	if len(state) != 0 || len(files) != 0 {
		return errors.New("bonds have no memory that can be shared")
	}
	return nil
}

// AppendRest implements pipeline.Handed. What LACP has to answer to is sent by whichever process goes on.
func (m *Module) AppendRest(dst []byte) ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.clock()
	m.receive(now, &m.pending)
	names := pipeline.Devices(m.ports)
	s := state{Bonds: make([]bondState, len(m.groups))}
	t := m.tables.Load()
	for i, g := range m.groups {
		b := &s.Bonds[i]
		*b = bondState{Name: g.name, Mode: g.settings.Mode.String(), Announce: g.announce, Changes: g.changes}
		if g.active != nil {
			b.Active = g.active.name
		}
		if g.former != nil {
			b.Former, b.Until = g.former.name, max(g.until.Sub(now), 0)
		}
		for _, one := range g.members {
			b.Members = append(b.Members, memberState{one.name, one.sends, one.lost})
		}
		targets := &t.bonds[i].targets // update makes one for each group, in their order
		b.Targets = g.indices(targets)
		for w := range m.workers {
			b.Workers = append(b.Workers, g.indices(m.distributes(w, g.number, targets)))
		}
		if g.lacp != nil {
			b.LACP = g.state(now)
		}
	}
	for _, o := range slices.Concat(m.sending, m.pending) {
		if int(o.port) < len(names) && names[o.port] != "" && len(o.frames) != 0 {
			s.Frames = append(s.Frames, frameState{names[o.port], o.frames})
		}
	}
	text, err := json.Marshal(s)
	return append(dst, text...), err
}

// state is what LACP knows of the group's members, in their order.
func (g *group) state(now time.Time) *lacp.AggregatorState {
	s := g.lacp.State(now)
	all := s.Ports
	s.Ports = nil
	for _, one := range g.members {
		s.Ports = append(s.Ports, all[slices.Index(g.lacp.Ports, one.lacp)])
	}
	return &s
}

// distributes is how a worker, which rests, distributes a bond now. One that has sent nothing since the bond came does as is wanted.
func (m *Module) distributes(w int, number uint16, targets *assignment) *assignment {
	d := m.distribute.Load()
	if d == nil || w >= len(d.stages) || d.stages[w] == nil {
		return targets
	}
	for i := range d.stages[w].own {
		if o := &d.stages[w].own[i]; o.number == number {
			return &o.now
		}
	}
	return targets
}

// indices writes the members of buckets as indices of a group's members.
func (g *group) indices(a *assignment) []byte {
	all := make([]byte, len(a))
	for k, port := range a {
		all[k] = noMember
		for i, one := range g.members {
			if one.port == port {
				all[k] = byte(i)
			}
		}
	}
	return all
}

// Enter implements pipeline.Handed. An error may leave a part of the bonds entered: no worker runs then.
func (m *Module) Enter(text []byte) error {
	var s state
	if err := json.Unmarshal(text, &s); err != nil {
		return fmt.Errorf("what came of the bonds: %w", err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(s.Bonds) != len(m.groups) {
		return fmt.Errorf("there are %d bonds there, and %d here", len(s.Bonds), len(m.groups))
	}
	now, t := m.clock(), &tables{fresh: make([][]own, len(m.workers))}
	for _, g := range m.groups {
		at := slices.IndexFunc(s.Bonds, func(b bondState) bool { return b.Name == g.name })
		if at < 0 {
			return fmt.Errorf("port %s: nothing came of the bond", g.name)
		}
		b := &s.Bonds[at]
		members, err := g.enter(b, now)
		if err != nil {
			return fmt.Errorf("port %s: %w", g.name, err)
		}
		if len(b.Workers) != len(m.workers) {
			return fmt.Errorf("port %s: %d workers send by it there, and %d here", g.name, len(b.Workers), len(m.workers))
		}
		targets, err := assigned(members, b.Targets)
		for w, text := range b.Workers {
			o := own{number: g.number}
			var wErr error
			o.now, wErr = assigned(members, text)
			t.fresh[w], err = append(t.fresh[w], o), errors.Join(err, wErr)
		}
		if err != nil {
			return fmt.Errorf("port %s: %w", g.name, err)
		}
		t.bonds = append(t.bonds, bond{number: g.number, targets: targets})
	}
	if err := m.takeFrames(s.Frames); err != nil {
		return err
	}
	m.tables.Store(t)
	m.update() // links may be other ones than there
	return nil
}

// enter takes what another process knew of a group, and returns the members in the order in which they came.
func (g *group) enter(b *bondState, now time.Time) (members []*member, err error) {
	if mode := g.settings.Mode.String(); b.Mode != mode {
		return nil, fmt.Errorf("its mode is %q there, and %q here", b.Mode, mode)
	}
	if len(b.Members) != len(g.members) {
		return nil, fmt.Errorf("it has %d members there, and %d here", len(b.Members), len(g.members))
	}
	for i := range b.Members {
		one := g.named(b.Members[i].Name)
		if one == nil || slices.Contains(members, one) {
			return nil, fmt.Errorf("%q is no member of it here, or came twice", b.Members[i].Name)
		}
		members = append(members, one)
		one.sends, one.lost = b.Members[i].Sends, b.Members[i].Ends
	}
	g.active, g.former = g.named(b.Active), g.named(b.Former)
	if g.active == nil && b.Active != "" || g.former == nil && b.Former != "" {
		return nil, fmt.Errorf("%q or %q is no member of it here", b.Active, b.Former)
	}
	if backup := g.settings.Mode == pipeline.ActiveBackup; !backup && (g.active != nil || g.former != nil || b.Announce) {
		return nil, errors.New("an active member came of a bond that uses all")
	}
	if b.Until < 0 || b.Until > formerTime {
		return nil, fmt.Errorf("packets to the former member come for %v more, of %v", b.Until, formerTime)
	}
	g.until, g.announce, g.changes = now.Add(b.Until), b.Announce && g.active != nil, b.Changes
	if (b.LACP != nil) != (g.lacp != nil) {
		return nil, errors.New("LACP speaks there alone, or here")
	}
	if g.lacp == nil {
		return members, nil
	}
	if len(b.LACP.Ports) != len(members) {
		return nil, fmt.Errorf("LACP has %d ports there, and %d here", len(b.LACP.Ports), len(members))
	}
	if b.LACP.System.Priority != g.lacp.System.Priority {
		return nil, fmt.Errorf("LACP's system priority is %d there, and %d here", b.LACP.System.Priority, g.lacp.System.Priority)
	}
	a, err := lacp.Restore(*b.LACP, g.settings.Fast, now)
	if err != nil {
		return nil, err
	}
	g.lacp = a
	for i, one := range members {
		one.lacp = a.Ports[i]
		one.agreed, one.takes = one.lacp.Active(), one.lacp.Takes()
	}
	g.setUp(now)
	return members, nil
}

func (g *group) named(name string) *member {
	for _, one := range g.members {
		if one.name == name {
			return one
		}
	}
	return nil
}

// assigned reads what indices writes.
func assigned(members []*member, text []byte) (a assignment, err error) {
	if len(text) != buckets {
		return a, fmt.Errorf("%d buckets came, and not %d", len(text), buckets)
	}
	for k, i := range text {
		switch {
		case i == noMember:
			a[k] = packet.NoPort
		case int(i) < len(members):
			a[k] = members[i].port
		default:
			return a, fmt.Errorf("bucket %d is member %d's, of %d", k, i, len(members))
		}
	}
	return a, nil
}

// takeFrames takes the frames that the other process had to send. Those of ports that are not here are left out.
func (m *Module) takeFrames(all []frameState) error {
	names, counts := pipeline.Devices(m.ports), map[string]int{}
	m.pending = nil
	for _, f := range all {
		if counts[f.Port] += len(f.Frames); counts[f.Port] > maxFrames {
			return fmt.Errorf("%d frames wait for port %s, and %d at most can", counts[f.Port], f.Port, maxFrames)
		}
		for _, frame := range f.Frames {
			if len(frame) < minFrame || len(frame) > maxFrame {
				return fmt.Errorf("a frame of %d bytes waits for port %s", len(frame), f.Port)
			}
		}
		if at := slices.Index(names, f.Port); at >= 0 && f.Port != "" {
			m.pending = append(m.pending, originated{uint16(at), f.Frames})
		}
	}
	return nil
}

// Begin implements pipeline.Handed: the stages have it by then.
func (m *Module) Begin() {}

// Left implements pipeline.Handed: no LACPDU comes from this process any more.
func (m *Module) Left() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.left = true
}
