package vectors

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/weirswitch/weir/p4/bmv2"
	"github.com/weirswitch/weir/p4/controller"
	"github.com/weirswitch/weir/p4/tables"
)

// P4 is a running simple_switch with the tables of a setup.
type P4 struct {
	sw    *bmv2.Switch
	setup *Setup
	plane *controller.Controller

	slowFrom, slowTo int  // packets of which all that comes is waited for
	untilFirst       bool // ends the run at the first packet that differs, without the registers
}

// CPUPort is the port to the control plane, beyond those of a setup.
const CPUPort = tables.DefaultCPUPort

// NewP4 loads the tables of a setup into a switch that has just started. start is the time of
// the first packet.
func NewP4(sw *bmv2.Switch, s *Setup, start int64) (*P4, error) {
	plane, err := controller.New(sw, s.Switch, tables.Options{CPUPort: CPUPort, Now: uint64(start)})
	if err != nil {
		return nil, err
	}
	return &P4{sw: sw, setup: s, plane: plane}, nil
}

const (
	// late is how long a packet that is to come may take; many times what a switch takes on a busy machine.
	late = 3 * time.Second
	// quiet is how long nothing comes from a switch that has sent all.
	quiet = 100 * time.Millisecond
	// maxLate is how many packets may be waited for in vain before a run ends.
	maxLate = 20
)

// Run takes packets through the switch one by one: the next one is sent when all that is to come of
// the one before has come. want says how much that is; what comes beyond is found with a later
// packet, or in the end.
func (p *P4) Run(packets []Packet, writes []Write, want *Run) (*Run, error) {
	r := &Run{Results: make([]Result, len(packets)), Writes: writes, State: State{}}
	lost := 0
	for i, in := range packets {
		for len(writes) > 0 && writes[0].Before <= i {
			w := writes[0]
			if err := p.sw.WriteRegister(w.Register, w.Index, w.Value); err != nil {
				return nil, fmt.Errorf("packet %d: %w", i, err)
			}
			writes = writes[1:]
		}
		if err := p.sw.Send(bmv2.Packet{Port: in.Port, Data: given(in)}); err != nil {
			return nil, fmt.Errorf("packet %d: %w", i, err)
		}
		if err := p.learn(in, want.heard[i]); err != nil {
			return nil, fmt.Errorf("packet %d: %w", i, err)
		}
		missing, err := p.receive(&r.Results[i], &want.Results[i], i >= p.slowFrom && i < p.slowTo)
		if err != nil {
			return nil, fmt.Errorf("packet %d: %w", i, err)
		}
		if p.untilFirst && len(Compare(packets[i:i+1], &Run{Results: want.Results[i : i+1]}, &Run{Results: r.Results[i : i+1]})) != 0 {
			return r, nil
		}
		if missing {
			if lost++; lost > maxLate {
				return r, fmt.Errorf("packet %d: what was to come has not for %v, %d times", i, late, lost)
			}
		}
	}
	// What the last packets gave beyond what is known.
	for len(packets) > 0 {
		got, err := p.sw.Receive(quiet)
		if errors.Is(err, bmv2.ErrQuiet) {
			break
		}
		if err == nil {
			err = r.Results[len(packets)-1].take(got)
		}
		if err != nil {
			return nil, err
		}
	}
	for i := range r.Results {
		r.Results[i].sort()
	}
	return r, p.readState(r.State, want.State)
}

// receive takes what comes of a packet: as much as is to come and, where that is not what it should be, or slowly, all
// that comes.
func (p *P4) receive(r, want *Result, slowly bool) (missing bool, err error) {
	for range len(want.Out) + len(want.Messages) {
		got, err := p.sw.Receive(late)
		if errors.Is(err, bmv2.ErrQuiet) {
			missing = true
			break
		}
		if err == nil {
			err = r.take(got)
		}
		if err != nil {
			return false, err
		}
	}
	if r.sort(); !missing && !slowly && r.like(want) {
		return false, nil
	}
	for {
		got, err := p.sw.Receive(quiet)
		if errors.Is(err, bmv2.ErrQuiet) {
			return missing, nil
		}
		if err == nil {
			err = r.take(got)
		}
		if err != nil {
			return missing, err
		}
	}
}

// like says whether the results have the same ports and kinds of messages.
func (r *Result) like(o *Result) bool {
	return slices.EqualFunc(r.Out, o.Out, func(a, b Output) bool { return a.Port == b.Port }) &&
		slices.EqualFunc(r.Messages, o.Messages, func(a, b Message) bool { return a.Kind == b.Kind })
}

// told is how long the switch may take to tell of a station.
const told = 3 * time.Second

// learn waits for what the switch tells of a packet's source, where the control plane does not know it
// there; vlan is that in which the Go stage hears it. A switch that tells nothing differs in what follows.
func (p *P4) learn(in Packet, vlan int) error {
	if vlan == nobody || p.plane.Known(uint16(vlan), [6]byte(in.Data[6:12]), in.Port) {
		return nil
	}
	l, err := p.sw.Learned(told)
	if errors.Is(err, bmv2.ErrQuiet) {
		return nil
	}
	if err != nil {
		return err
	}
	return p.plane.Learn(l)
}

// given is a packet as programs with WEIR_GIVEN_TIME expect it: behind a given_time_t.
func given(p Packet) []byte {
	b := make([]byte, 0, 18+len(p.Data))
	b = binary.BigEndian.AppendUint64(b, uint64(p.Arrival))
	b = binary.BigEndian.AppendUint64(b, uint64(p.Now))
	b = binary.BigEndian.AppendUint16(b, p.Depth)
	return append(b, p.Data...)
}

// messageLen is the length of a cpu_t.
const messageLen = 32

// take adds what the switch sent.
func (r *Result) take(p bmv2.Packet) error {
	if p.Port != CPUPort {
		r.Out = append(r.Out, Output{p.Port, p.Data})
		return nil
	}
	b := p.Data
	if len(b) < messageLen {
		return fmt.Errorf("a message of %d bytes for the control plane", len(b))
	}
	r.Messages = append(r.Messages, Message{
		Kind: b[0], Hop: b[1], Plan: binary.BigEndian.Uint16(b[2:]), InPort: binary.BigEndian.Uint16(b[4:]),
		OutPort: binary.BigEndian.Uint16(b[6:]), Digest: binary.BigEndian.Uint64(b[8:]), ID: binary.BigEndian.Uint64(b[16:]),
		Arrival: int64(binary.BigEndian.Uint64(b[24:])), Data: b[messageLen:],
	})
	return nil
}

func (r *Result) sort() {
	slices.SortStableFunc(r.Out, func(a, b Output) int { return int(a.Port) - int(b.Port) })
	slices.SortStableFunc(r.Messages, compareMessages)
}

// compareMessages orders them by kind and port.
func compareMessages(a, b Message) int {
	if a.Kind != b.Kind || a.Kind&MessageRecord == 0 {
		return int(a.Kind) - int(b.Kind)
	}
	return int(a.OutPort) - int(b.OutPort)
}

// readState reads of the switch what the Go side has.
func (p *P4) readState(state, want State) error {
	for name, cells := range want {
		var err error
		switch {
		case name == reasonCounter:
			err = p.readCounter(state, name, len(cells), "ingress.ingress_dropped", "egress.egress_dropped")
		case name == faultCounter || name == pintCounter || name == copyCounter || name == copyReasonCounter:
			err = p.readCounter(state, name, len(cells), name)
		case strings.HasSuffix(name, ".cell_sum") || strings.HasSuffix(name, ".cell_digest"):
			state[name], err = p.readHalves(name)
			if strings.HasSuffix(name, ".cell_digest") {
				for i := range state[name] {
					state[name][i] &= 1<<32 - 1 // records have the lower half
				}
			}
		default:
			state[name], err = p.sw.Registers(name)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// readHalves reads numbers of which two registers have the halves, as BMv2's runtime tells
// none from 2^63 on.
func (p *P4) readHalves(name string) ([]uint64, error) {
	high, err := p.sw.Registers(name + "_high")
	if err != nil {
		return nil, err
	}
	cells, err := p.sw.Registers(name + "_low")
	if err == nil && len(cells) != len(high) {
		err = fmt.Errorf("register %s has %d high and %d low halves", name, len(high), len(cells))
	}
	for i := range cells {
		cells[i] |= high[i] << 32
	}
	return cells, err
}

func (p *P4) readCounter(state State, name string, size int, counters ...string) error {
	for _, counter := range counters {
		for i := range size {
			packets, _, err := p.sw.Counter(counter, i)
			if err != nil {
				return err
			}
			state.add(name, size, i, packets)
		}
	}
	return nil
}
