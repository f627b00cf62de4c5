package lacp

import (
	"errors"
	"fmt"
	"time"
)

// AggregatorState is what another process needs to go on as an aggregator, so that partners see the same system. Times are what is left of timers, or
// what has passed since events: while no process runs the machines, no time passes for them.
type AggregatorState struct {
	System System      `json:"system"`
	Key    uint16      `json:"key"`
	Group  *GroupState `json:"group,omitempty"` // nil: no port was selected yet
	Ports  []PortState `json:"ports"`           // in the order of Ports
}

// GroupState is the link aggregation group of an aggregator's ports, as far as the partner makes it.
type GroupState struct {
	System System `json:"system"`
	Key    uint16 `json:"key"`
}

// PortState is a port of an AggregatorState.
type PortState struct {
	Actor    Participant     `json:"actor"`
	Partner  Participant     `json:"partner"`
	Rx       RxState         `json:"rx"`
	Mux      MuxState        `json:"mux"`
	Selected bool            `json:"selected"`
	Current  time.Duration   `json:"current"`            // of current_while_timer
	Wait     time.Duration   `json:"wait"`               // of wait_while_timer
	Periodic *time.Duration  `json:"periodic,omitempty"` // of periodic_timer; nil: it does not run
	Fast     bool            `json:"fast"`               // what periodic_timer was set for
	NTT      bool            `json:"ntt"`
	Sends    []time.Duration `json:"sends"`   // since LACPDUs were sent, as far as that bounds the next ones
	Answers  []time.Duration `json:"answers"` // and responses to markers
	Counters `json:"counters"`
}

// State describes the aggregator at a time.
func (a *Aggregator) State(now time.Time) AggregatorState {
	s := AggregatorState{System: a.System, Key: a.Key}
	if a.grouped {
		s.Group = &GroupState{a.group.system, a.group.key}
	}
	for _, p := range a.Ports {
		one := PortState{
			Actor: p.Actor, Partner: p.Partner, Rx: p.Rx, Mux: p.Mux, Selected: p.Selected, Current: left(p.deadline, now), Wait: left(p.wait, now),
			Fast: p.fast, NTT: p.ntt, Sends: p.sends.state(now), Answers: p.answers.state(now), Counters: p.Counters,
		}
		if !p.periodic.IsZero() {
			periodic := left(p.periodic, now)
			one.Periodic = &periodic
		}
		s.Ports = append(s.Ports, one)
	}
	return s
}

// left is what is left of a timer, 0 of one that ended.
func left(end, now time.Time) time.Duration { return max(end.Sub(now), 0) }

// state returns how long the events are past that count against the limit, the oldest first.
func (l *limit) state(now time.Time) (ages []time.Duration) {
	for i := range l.times {
		t := l.times[(l.at+i)%len(l.times)]
		if age := max(now.Sub(t), 0); !t.IsZero() && age < FastPeriodic {
			ages = append(ages, age)
		}
	}
	return ages
}

func (l *limit) restore(ages []time.Duration, now time.Time) error {
	if len(ages) > len(l.times) {
		return fmt.Errorf("%d events are in a second, and at most %d can be", len(ages), len(l.times))
	}
	before := FastPeriodic
	for _, age := range ages {
		if age < 0 || age > before {
			return errors.New("events that are limited are out of order, or out of their second")
		}
		l.times[l.at], before = now.Add(-age), age
		l.at = (l.at + 1) % len(l.times)
	}
	return nil
}

// Restore makes an aggregator of a state. The state may be of a process that is broken: what no aggregator can be in is an error.
func Restore(s AggregatorState, fast bool, now time.Time) (*Aggregator, error) {
	if s.System.MAC == [6]byte{} || s.System.MAC[0]&1 != 0 {
		return nil, fmt.Errorf("%s is no system's identity", s.System)
	}
	a := &Aggregator{System: s.System, Key: s.Key, Fast: fast}
	if s.Group != nil {
		a.group, a.grouped = group{s.Group.System, s.Group.Key}, true
	}
	for i := range s.Ports {
		one := &s.Ports[i]
		for k := range i {
			if s.Ports[k].Actor.Port == one.Actor.Port {
				return nil, fmt.Errorf("two ports have the number %d", one.Actor.Port)
			}
		}
		if err := one.check(a); err != nil {
			return nil, fmt.Errorf("LACP's port %d: %w", one.Actor.Port, err)
		}
		p := a.Add(one.Actor.Port)
		p.Actor, p.Partner, p.Rx, p.Mux, p.Selected, p.Counters = one.Actor, one.Partner, one.Rx, one.Mux, one.Selected, one.Counters
		p.up, p.ntt, p.fast = one.Rx != PortDisabled, one.NTT, one.Fast
		p.deadline, p.wait = now.Add(one.Current), now.Add(one.Wait)
		if one.Periodic != nil {
			p.periodic = now.Add(*one.Periodic)
		}
		if err := errors.Join(p.sends.restore(one.Sends, now), p.answers.restore(one.Answers, now)); err != nil {
			return nil, fmt.Errorf("LACP's port %d: %w", one.Actor.Port, err)
		}
	}
	return a, nil
}

// check refuses a port in which its machines cannot be.
func (s *PortState) check(a *Aggregator) error {
	if s.Rx > Current || s.Mux > MuxDistributing {
		return fmt.Errorf("its machines are in the states %d and %d", uint8(s.Rx), uint8(s.Mux))
	}
	want := Activity | Aggregation
	for _, flag := range []struct {
		set  bool
		flag State
	}{
		{a.Fast, ShortTimeout}, {s.Mux >= Attached, Synchronization}, {s.Mux >= MuxCollecting, Collecting}, {s.Mux == MuxDistributing, Distributing},
		{s.Rx == RxExpired, Expired},
		// Until a partner was received, and again once it is silent.
		{s.Rx == RxDefaulted || s.Rx != Current && s.Actor.State.Has(Defaulted), Defaulted},
	} {
		if flag.set {
			want |= flag.flag
		}
	}
	if s.Actor.System != a.System || s.Actor.Key != a.Key || s.Actor.PortPriority != portPriority || s.Actor.Port == 0 || s.Actor.State != want {
		return fmt.Errorf("it is %s, and its machines are in the states %s and %s", s.Actor, s.Rx, s.Mux)
	}
	for _, timer := range []struct {
		name       string
		left, most time.Duration
	}{{"current_while_timer", s.Current, LongTime}, {"wait_while_timer", s.Wait, AggregateWait}} {
		if timer.left < 0 || timer.left > timer.most {
			return fmt.Errorf("%s has %v left, of %v", timer.name, timer.left, timer.most)
		}
	}
	if p := s.Periodic; p != nil && (*p < 0 || *p > period(s.Fast)) {
		return fmt.Errorf("periodic_timer has %v left, of %v", *p, period(s.Fast))
	}
	return nil
}
