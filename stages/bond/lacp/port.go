package lacp

import "time"

// The timers of 6.4.4, and of the slow protocols.
const (
	FastPeriodic  = time.Second
	SlowPeriodic  = 30 * time.Second
	ShortTime     = 3 * FastPeriodic
	LongTime      = 3 * SlowPeriodic
	AggregateWait = 2 * time.Second
	maxTransmits  = 3 // in a fast periodic time (6.4.16)
	maxResponses  = 5 // to markers, in a second (6.5.4.2.1)
)

// portPriority is that of all ports: half way, as it is by default everywhere.
const portPriority = 0xff

// RxState is that of the receive machine (figure 6-18).
type RxState uint8

// The states, but for INITIALIZE, which a port leaves at once, and LACP_DISABLED.
const (
	PortDisabled RxState = iota
	RxExpired
	RxDefaulted
	Current
)

// String names the state as the standard does.
func (s RxState) String() string {
	return [...]string{"PORT_DISABLED", "EXPIRED", "DEFAULTED", "CURRENT"}[s]
}

// MuxState is that of the mux machine with independent control (figure 6-21).
type MuxState uint8

// The states, in the order in which a port comes to carry packets.
const (
	Detached MuxState = iota
	Waiting
	Attached
	MuxCollecting
	MuxDistributing
)

// String names the state as the standard does.
func (s MuxState) String() string {
	return [...]string{"DETACHED", "WAITING", "ATTACHED", "COLLECTING", "DISTRIBUTING"}[s]
}

// Port is a port of an aggregator.
type Port struct {
	Actor   Participant // ours
	Partner Participant // the other end's, as it was received last
	Rx      RxState
	Mux     MuxState
	// Selected: the port is of the aggregator's group.
	Selected bool

	up       bool
	deadline time.Time // of current_while_timer
	periodic time.Time // when periodic_timer ends; zero while there is no periodic transmission
	fast     bool      // what periodic was set for
	wait     time.Time // when wait_while_timer ends
	waited   bool      // it has
	ntt      bool      // need to transmit
	sends    limit     // of maxTransmits
	answers  limit     // of maxResponses
	Counters
}

// Counters are of one port, since it was made.
type Counters struct {
	Received, Sent     uint64 // LACPDUs
	Markers, Responses uint64 // marker PDUs received, and answered
	Changes            uint64 // other partners than before
	Joined, Left       uint64 // begins and ends of DISTRIBUTING
}

// Aggregator is the ports of one bond.
type Aggregator struct {
	System System
	Key    uint16
	Fast   bool // asks the partner for a LACPDU each second
	Ports  []*Port

	group   group // what selected ports are of
	grouped bool
}

// group is a link aggregation group's identity, as far as the partner makes it (6.3.6).
type group struct {
	system System
	key    uint16
}

// Add adds a port that is down, with a number that no other one has.
func (a *Aggregator) Add(number uint16) *Port {
	p := &Port{Actor: Participant{System: a.System, Key: a.Key, PortPriority: portPriority, Port: number, State: Activity | Aggregation | Defaulted}}
	p.sends.times, p.answers.times = make([]time.Time, maxTransmits), make([]time.Time, maxResponses)
	if a.Fast {
		p.Actor.State |= ShortTimeout
	}
	a.Ports = append(a.Ports, p)
	return p
}

// SetUp says whether a port's link is up.
func (p *Port) SetUp(up bool, now time.Time) {
	if p.up == up {
		return
	}
	p.up = up
	if !up { // PORT_DISABLED: the partner is remembered, and out of sync
		p.Rx = PortDisabled
		p.Partner.State &^= Synchronization
		p.Actor.State &^= Expired
		return
	}
	p.expire(now)
}

// expire is the entry of EXPIRED.
func (p *Port) expire(now time.Time) {
	p.Rx = RxExpired
	p.Partner.State &^= Synchronization
	p.Partner.State |= ShortTimeout
	p.deadline = now.Add(ShortTime)
	p.Actor.State |= Expired
	p.ntt = true
}

// Receive takes a LACPDU or a marker PDU, from the subtype on; what is neither is passed over. It returns what is to be sent at once, which is what an answer to a marker is:
// data, changed.
func (p *Port) Receive(data []byte, now time.Time) (response []byte) {
	if !p.up {
		return nil
	}
	if len(data) > 0 && data[0] == SubtypeMarker {
		p.Markers++
		if !p.answers.take(now) || !MarkerResponse(data) {
			return nil
		}
		p.Responses++
		return data[:Length]
	}
	pdu, ok := Decode(data)
	if !ok {
		return nil
	}
	p.Received++
	// CURRENT: update_Selected, update_NTT, recordPDU, in this order.
	was := p.Partner
	if was.System != pdu.Actor.System || was.Key != pdu.Actor.Key || was.Port != pdu.Actor.Port || was.PortPriority != pdu.Actor.PortPriority ||
		(was.State^pdu.Actor.State)&Aggregation != 0 {
		p.Selected = false
		p.Changes++
	}
	const told = Activity | ShortTimeout | Aggregation | Synchronization
	ours := pdu.Partner.System == p.Actor.System && pdu.Partner.Key == p.Actor.Key && pdu.Partner.Port == p.Actor.Port && pdu.Partner.PortPriority == p.Actor.PortPriority
	if !ours || (pdu.Partner.State^p.Actor.State)&told != 0 {
		p.ntt = true
	}
	p.Partner = pdu.Actor
	p.Actor.State &^= Defaulted | Expired
	// The partner is in sync if it says so, and means us (recordPDU).
	inSync := pdu.Actor.State.Has(Synchronization) &&
		(ours && (pdu.Partner.State^p.Actor.State)&Aggregation == 0 || !pdu.Actor.State.Has(Aggregation))
	active := pdu.Actor.State.Has(Activity) || p.Actor.State.Has(Activity) && pdu.Partner.State.Has(Activity)
	if !inSync || !active {
		p.Partner.State &^= Synchronization
	}
	p.Rx = Current
	p.deadline = now.Add(LongTime)
	if p.Actor.State.Has(ShortTimeout) {
		p.deadline = now.Add(ShortTime)
	}
	return nil
}

// limit bounds how many events there are within any second, to as many as it has times; at is the oldest one.
type limit struct {
	times []time.Time
	at    int
}

// take counts an event, unless there were too many.
func (l *limit) take(now time.Time) bool {
	if old := l.times[l.at]; !old.IsZero() && now.Sub(old) < FastPeriodic {
		return false
	}
	l.times[l.at] = now
	l.at = (l.at + 1) % len(l.times)
	return true
}

// Step runs the machines of all ports, and returns by port, in the order of Ports, the LACPDUs to send: nil where there is none. It is to be called after each SetUp and
// Receive, and at least each 100 ms.
func (a *Aggregator) Step(now time.Time) [][]byte {
	for _, p := range a.Ports {
		p.current(now)
	}
	a.selection(now)
	out := make([][]byte, len(a.Ports))
	for i, p := range a.Ports {
		p.waited = !now.Before(p.wait)
		p.mux()
		p.periodically(now)
		out[i] = p.transmit(now)
	}
	return out
}

// current ends what current_while_timer ends.
func (p *Port) current(now time.Time) {
	if p.Rx != RxExpired && p.Rx != Current || now.Before(p.deadline) {
		return
	}
	if p.Rx == Current {
		p.expire(now)
		return
	}
	// DEFAULTED: recordDefault. A partner that does not speak LACP is individual, and not in sync.
	p.Rx = RxDefaulted
	p.Selected = false
	p.Partner = Participant{}
	p.Actor.State |= Defaulted
	p.Actor.State &^= Expired
}

// selection is the selection logic: ports that have a partner of the group are of the aggregator.
func (a *Aggregator) selection(now time.Time) {
	kept := false
	for _, p := range a.Ports {
		if p.Selected && (!a.joins(p) || p.group() != a.group) {
			p.Selected = false
		}
		kept = kept || p.Selected
	}
	if !kept {
		a.group, a.grouped = a.choose()
	}
	for _, p := range a.Ports {
		// The mux machine has to have left the former group before (6.4.14.1).
		if !p.Selected && a.grouped && a.joins(p) && p.group() == a.group && p.Mux == Detached {
			p.Selected = true
			p.wait = now.Add(AggregateWait)
		}
	}
}

func (p *Port) group() group { return group{p.Partner.System, p.Partner.Key} }

// joins reports whether a port can be of any group: its partner speaks, can aggregate, and is not the switch itself.
func (a *Aggregator) joins(p *Port) bool {
	return p.up && (p.Rx == Current || p.Rx == RxExpired && p.Selected) && p.Partner.State.Has(Aggregation) && p.Partner.System != a.System
}

// choose returns the group with the most ports, of equals that of the lowest port.
func (a *Aggregator) choose() (best group, ok bool) {
	most := 0
	for _, p := range a.Ports {
		if !a.joins(p) {
			continue
		}
		n := 0
		for _, q := range a.Ports {
			if a.joins(q) && q.group() == p.group() {
				n++
			}
		}
		if n > most {
			most, best = n, p.group()
		}
	}
	return best, most > 0
}

// mux is the mux machine with independent control. A partner with coupled control sends as soon as it knows that the port is in sync, which it
// is from ATTACHED on: so packets are taken from there on ([Port.Takes]), and none is lost between.
func (p *Port) mux() {
	for {
		before := p.Mux
		good := p.Selected && p.Partner.State.Has(Synchronization)
		switch p.Mux {
		case Detached:
			if p.Selected {
				p.Mux = Waiting
			}
		case Waiting:
			if !p.Selected {
				p.detach()
			} else if p.waited {
				p.Mux = Attached
				p.Actor.State |= Synchronization
				p.ntt = true
			}
		case Attached:
			if !p.Selected {
				p.detach()
			} else if good {
				p.Mux = MuxCollecting
				p.Actor.State |= Collecting
				p.ntt = true
			}
		case MuxCollecting:
			if !good {
				p.Mux = Attached
				p.Actor.State &^= Collecting
				p.ntt = true
			} else if p.Partner.State.Has(Collecting) {
				p.Mux = MuxDistributing
				p.Actor.State |= Distributing
				p.ntt = true
				p.Joined++
			}
		case MuxDistributing:
			if !good || !p.Partner.State.Has(Collecting) {
				p.Left++
				p.Mux = MuxCollecting
				p.Actor.State &^= Distributing
				p.ntt = true
			}
		}
		if p.Mux == before {
			return
		}
	}
}

func (p *Port) detach() {
	p.Mux = Detached
	p.Actor.State &^= Synchronization | Collecting | Distributing
	p.ntt = true
}

// periodically is the periodic transmission machine (figure 6-19): we are active, so there is none but of ports that are down.
func (p *Port) periodically(now time.Time) {
	if !p.up {
		p.periodic = time.Time{}
		return
	}
	fast := p.Partner.State.Has(ShortTimeout)
	if p.periodic.IsZero() || fast != p.fast {
		p.ntt = p.ntt || p.periodic.IsZero() || fast
		p.periodic, p.fast = now.Add(period(fast)), fast
	}
	if !now.Before(p.periodic) {
		p.ntt = true
		p.periodic = now.Add(period(fast))
	}
}

func period(fast bool) time.Duration {
	if fast {
		return FastPeriodic
	}
	return SlowPeriodic
}

// transmit is the transmit machine.
func (p *Port) transmit(now time.Time) []byte {
	if !p.ntt || !p.up || !p.sends.take(now) {
		return nil
	}
	p.ntt = false
	p.Sent++
	return (&PDU{p.Actor, p.Partner}).Append(nil)
}

// Farewell is the last LACPDU of a port that is taken out of its aggregator, nil while its link is down. To the partner the port is an individual one from then on, which it
// stops using at once (update_Selected, 6.4.9), where it would wait for LACPDUs that are missing. The port is not of use any more.
func (p *Port) Farewell() []byte {
	if !p.up {
		return nil
	}
	p.Actor.State &^= Aggregation | Synchronization | Collecting | Distributing
	p.Sent++
	return (&PDU{p.Actor, p.Partner}).Append(nil)
}

// Active reports whether packets leave by a port.
func (p *Port) Active() bool { return p.Mux == MuxDistributing }

// Takes reports whether packets that arrive at a port are taken.
func (p *Port) Takes() bool { return p.Mux >= Attached }
