package bmv2

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"
)

// Packet is a packet at a port of the switch: one to send to it, or one that it sent.
type Packet struct {
	Port uint16
	Data []byte
}

// The messages of BMv2's packet-in device manager begin with three 32-bit numbers in the byte
// order of the machine: type, port and length.
const (
	packetHeader  = 12
	messagePacket = 3 // to the switch
	messageOut    = 4 // from the switch
)

// ErrQuiet says that the switch sent no packet in the given while.
var ErrQuiet = errors.New("the switch sends nothing")

// Send gives the switch a packet, as if it had arrived at its port. It blocks while the switch's
// input queue is full. Only for a switch without interfaces.
func (s *Switch) Send(p Packet) error {
	if s.packets == nil {
		return errors.New("send a packet: the switch has interfaces: send it there")
	}
	var head [packetHeader]byte
	binary.NativeEndian.PutUint32(head[0:], messagePacket)
	binary.NativeEndian.PutUint32(head[4:], uint32(p.Port))
	binary.NativeEndian.PutUint32(head[8:], uint32(len(p.Data)))
	if err := s.packets.Send(head[:], p.Data); err != nil {
		return s.failed(fmt.Errorf("send a packet: %w", err))
	}
	return nil
}

// Receive returns the next packet that the switch sent, by whatever port; those of one port
// are in order. The error is [ErrQuiet] if there was none for the given while.
func (s *Switch) Receive(wait time.Duration) (Packet, error) {
	if s.sent == nil {
		return Packet{}, errors.New("receive a packet: the switch has interfaces: receive it there")
	}
	select { // A timer is only made if there is something to wait for.
	case p, ok := <-s.sent:
		return s.received(p, ok)
	default:
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case p, ok := <-s.sent:
		return s.received(p, ok)
	case <-timer.C:
		return Packet{}, ErrQuiet
	}
}

func (s *Switch) received(p Packet, ok bool) (Packet, error) {
	if !ok {
		return Packet{}, s.failed(fmt.Errorf("receive a packet: %w", s.sentErr))
	}
	return p, nil
}

// readPackets takes packets off the socket until it is closed.
func (s *Switch) readPackets() {
	defer close(s.sent)
	for {
		m, err := s.packets.Receive()
		if err != nil {
			s.sentErr = err
			return
		}
		if len(m) < packetHeader || binary.NativeEndian.Uint32(m) != messageOut {
			continue
		}
		data := m[packetHeader:]
		if n := binary.NativeEndian.Uint32(m[8:]); int(n) <= len(data) {
			data = data[:n]
		}
		s.sent <- Packet{uint16(binary.NativeEndian.Uint32(m[4:])), data}
	}
}

// Learned is a buffer of what the program told its control plane by digest().
type Learned struct {
	List    int      // which digest, from 1 in the order of the program
	Samples [][]byte // the fields of each, one behind the other, each in whole bytes
}

// learnHeader precedes a buffer of samples.
const learnHeader = 32

// Learned returns the program's next digest, and acknowledges it: the switch sends
// equal samples once until then. The error is [ErrQuiet] if there was nothing for the given while.
func (s *Switch) Learned(wait time.Duration) (Learned, error) {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case m, ok := <-s.learned:
		if !ok {
			return Learned{}, s.failed(errors.New("the switch closed its notifications"))
		}
		return s.readLearned(m)
	case <-timer.C:
		return Learned{}, ErrQuiet
	}
}

func (s *Switch) readLearned(m []byte) (Learned, error) {
	// sub_topic[4], switch_id (64), context (32), list (32), buffer (64), samples (32)
	list, buffer, n := binary.NativeEndian.Uint32(m[16:]), binary.NativeEndian.Uint64(m[20:]), int(binary.NativeEndian.Uint32(m[28:]))
	l := Learned{List: int(list)}
	rest := m[learnHeader:]
	if n == 0 || len(rest)%n != 0 {
		return l, fmt.Errorf("the switch announces %d samples in %d bytes", n, len(rest))
	}
	for size := len(rest) / n; len(rest) > 0; rest = rest[size:] {
		l.Samples = append(l.Samples, rest[:size])
	}
	return l, s.runtime.acknowledge(int32(list), int64(buffer))
}

// Expired are entries that no packet has hit for as long as [Switch.SetEntryTTL] said. They are still there.
type Expired struct {
	Table   string
	Handles []int32 // as [Switch.AddEntry] gave them
}

// Expired returns what the switch has told next; false: nothing new. It looks through its tables once
// a second.
func (s *Switch) Expired() (Expired, bool) {
	select {
	case m := <-s.expired:
		return s.program.readExpired(m)
	default:
		return Expired{}, false
	}
}

// readExpired reads a notification of ageing: the same header as of samples, with the table's number instead of
// the list's, and the handles (32).
func (p *Program) readExpired(m []byte) (Expired, bool) {
	table, ok := p.numbers[int(int32(binary.NativeEndian.Uint32(m[24:])))]
	e := Expired{Table: table}
	n := int(binary.NativeEndian.Uint32(m[28:]))
	handles := m[learnHeader:]
	if len(handles) != 4*n {
		return e, false
	}
	for ; len(handles) > 0; handles = handles[4:] {
		e.Handles = append(e.Handles, int32(binary.NativeEndian.Uint32(handles)))
	}
	return e, ok
}

func (s *Switch) readNotifications() {
	defer close(s.learned)
	for {
		m, err := s.notices.Receive()
		if err != nil {
			return
		}
		if len(m) < learnHeader {
			continue
		}
		switch string(m[:4]) {
		case "LEA|":
			s.learned <- m
		case "AGE|":
			select {
			case s.expired <- m:
			default: // Not read for hours.
			}
		}
	}
}
