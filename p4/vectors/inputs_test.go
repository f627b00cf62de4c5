package vectors

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"slices"

	"github.com/weirswitch/weir/p4/tables"
	"github.com/weirswitch/weir/pipeline/header"
	"github.com/weirswitch/weir/stages/l3"
	"github.com/weirswitch/weir/stages/patch"
	stagepint "github.com/weirswitch/weir/stages/pint"
	"github.com/weirswitch/weir/telemetry/hash"
	"github.com/weirswitch/weir/telemetry/record"
)

// Inputs are the packets of a run, out of a capture's frames: each arrives at a port, as hosts
// sent it or with a digest as other switches left it, some with one that is broken, at a time and
// with a queue that the seed draws.
//
// The run lasts about lasting, so that however many packets there are, it sees the edges of
// epochs, subepochs and intervals.
func Inputs(s *Setup, frames [][]byte, seed uint64) ([]Packet, error) {
	d := draws{seed: seed}
	up, err := newUpstream(s)
	if err != nil {
		return nil, err
	}
	bridge, err := newBridge(s.Switch)
	if err != nil {
		return nil, errors.Join(err, up.close())
	}
	packets := make([]Packet, len(frames))
	now := int64(begin)
	gap := max(lasting/int64(max(len(frames), 1)), 1)
	arrival := now
	for i, f := range frames {
		arrival += int64(d.next(uint64(2 * gap)))
		// A packet stays some microseconds, and now and then for longer than a short interval.
		stay := 100 + int64(d.next(20_000))
		if d.next(25) == 0 {
			stay += int64(d.next(4_000_000))
		}
		now = max(now, arrival+stay)
		p := &packets[i]
		*p = Packet{Port: uint16(d.next(uint64(len(s.Switch.Ports)))), Arrival: arrival, Now: now, Data: slices.Clone(f)}
		if d.next(4) == 0 {
			p.Depth = uint16(d.next(300))
		}
		s.address(&d, p)
		bridge.tag(&d, p)
		if err := up.carry(&d, p); err != nil {
			return nil, errors.Join(fmt.Errorf("packet %d: %w", i, err), up.close())
		}
	}
	return packets, up.close()
}

// The clock of a run: it begins a moment before the edge of an epoch, in November 2023.
const (
	begin   = 1_700_000_000_000_000_000>>30<<30 - 10_000_000
	lasting = 600_000_000 // ns
)

// draws are random numbers by a seed.
type draws struct{ seed, n uint64 }

// next is a number below most.
func (d *draws) next(most uint64) uint64 {
	d.n++
	return hash.Reduce(hash.Uint64(d.seed, d.n), most)
}

// address gives most packets to a router its address, so that they are routed.
func (s *Setup) address(d *draws, p *Packet) {
	c, ok := stageConfig[l3.Config](s.Switch, "l3")
	if !ok || len(p.Data) < 6 || d.next(16) == 0 {
		return
	}
	mac, err := net.ParseMAC(c.Interfaces[p.Port].MAC)
	if err == nil {
		copy(p.Data, mac)
	}
}

// tag gives most packets to a bridge with VLANs a tag of one of these: what captures have of tags
// would be filtered.
func (b *bridge) tag(d *draws, p *Packet) {
	if b == nil || len(b.vlans) == 0 || len(p.Data) < 14 {
		return
	}
	const priority = 5 << 13
	vlan := b.vlans[d.next(uint64(len(b.vlans)))]
	kind := d.next(8)
	switch kind {
	case 0, 1: // as it is
		return
	case 2:
		vlan = priority
	case 3:
		vlan |= priority
	}
	in := binary.BigEndian.Uint16(p.Data[12:])
	if header.IsVLAN(in) && len(p.Data) >= 18 && kind < 6 {
		binary.BigEndian.PutUint16(p.Data[14:], vlan) // another one instead of its own
		return
	}
	tags := []byte{0x81, 0, byte(vlan >> 8), byte(vlan)}
	if kind == 7 {
		tags = []byte{0x88, 0xa8, byte(vlan >> 8), byte(vlan), 0x81, 0, 0, byte(d.next(64))}
	}
	p.Data = slices.Insert(p.Data, 12, tags...)
}

// upstream are the switches that packets passed before: a source and two in the middle.
type upstream struct {
	switches []*goSwitch
	edge     []bool // of the switch that is tested, by port
	ipid     bool
}

const upstreamSwitches = 3

func newUpstream(s *Setup) (*upstream, error) {
	u := &upstream{edge: make([]bool, len(s.Switch.Ports))}
	c, ok := stageConfig[stagepint.Config](s.Switch, "pint")
	if !ok {
		return u, nil
	}
	u.ipid = s.Plan.Carrier == "ipid"
	for i := range s.Switch.Ports {
		u.edge[i] = slices.Contains(c.Edge, s.Switch.Ports[i].Name)
	}
	for i := range upstreamSwitches {
		config := *c
		config.Edge = nil
		if i == 0 {
			config.Edge = []string{"in"}
		}
		g, err := newGoSwitch(&tables.Switch{
			ID: uint32(i + 1), Hash: s.Switch.Hash, Graph: []string{"parse", "patch", "pint"},
			Ports: namedPorts("in", "out"), Stages: map[string]any{"patch": &patch.Config{Pairs: [][2]string{{"in", "out"}}}, "pint": &config},
		}, nothing{})
		if err != nil {
			return nil, errors.Join(fmt.Errorf("a switch in front: %w", err), u.close())
		}
		u.switches = append(u.switches, g)
	}
	return u, nil
}

// nothing keeps no records.
type nothing struct{}

func (nothing) record(*record.Header, func([]byte) ([]byte, error)) {}

func (u *upstream) close() error {
	var errs []error
	for _, g := range u.switches {
		errs = append(errs, g.close())
	}
	return errors.Join(errs...)
}

// carry takes a packet for a port to other switches through some of these, and breaks a few of the
// digests. A few packets come there without, and every other one of those that have a shim already with it alone.
func (u *upstream) carry(d *draws, p *Packet) error {
	bare := uint64(16)
	if len(p.Data) > 14 && binary.BigEndian.Uint16(p.Data[12:]) == header.TypeShim {
		bare = 2
	}
	if len(u.switches) == 0 || d.next(bare) == 0 {
		return nil
	}
	if u.edge[p.Port] {
		// A host's packet that looks like one of the network's.
		if d.next(32) != 0 {
			return nil
		}
	}
	hops := 1 + int(d.next(upstreamSwitches))
	at := p.Arrival - int64(hops)*1_000_000
	for _, g := range u.switches[:hops] {
		r, err := g.step(Packet{Port: 0, Arrival: at, Now: at + int64(d.next(500_000)), Data: p.Data})
		if err != nil {
			return err
		}
		if len(r.Out) != 1 {
			return nil // not one that passes: it comes as it is
		}
		p.Data = r.Out[0].Data
		at += 1_000_000
	}
	if d.next(16) == 0 {
		u.spoil(d, p)
	}
	return nil
}

// spoil makes something of a digest that no switch of ours would send.
func (u *upstream) spoil(d *draws, p *Packet) {
	const shimAt = 14 // behind the EtherType of a packet without tags
	if u.ipid || len(p.Data) < shimAt+9 || binary.BigEndian.Uint16(p.Data[12:]) != header.TypeShim {
		return
	}
	switch d.next(7) {
	case 0: // another version
		p.Data[shimAt] ^= 0x20
	case 1: // another plan
		p.Data[shimAt+3] ^= 1
	case 2: // a digest of another length
		p.Data[shimAt] = p.Data[shimAt]&^7 | byte(d.next(8))
	case 3: // the packet ends within
		p.Data = p.Data[:shimAt+d.next(9)]
	case 4: // as many hops as there can be
		p.Data[shimAt+1] = byte(250 + d.next(6))
	case 5: // the other parity of the interval
		p.Data[shimAt] ^= 8
	case 6: // a host's shim within
		shim := slices.Clone(p.Data[12 : shimAt+6])
		p.Data = slices.Insert(p.Data, shimAt+6, shim...)
	}
}
