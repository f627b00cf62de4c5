package memif

import (
	"crypto/subtle"
	"errors"
	"fmt"
	"math/bits"
	"net"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weirswitch/weir/dataplane/shmem"
	"github.com/weirswitch/weir/internal/printable"
)

// session is one connection of a device.
type session struct {
	device *Device
	conn   *net.UnixConn
	memory memory
	peer   string
	rings  []pending
	m      message
	joined bool // both sides are connected
}

// pending is a ring before both sides are connected.
type pending struct {
	queue *Queue
	ring  *Ring
	file  int // the session's until the queue has it; -1 then
}

// admit checks a client's Init.
func (d *Device) admit(m *message) error {
	if mode := m.bytes[8]; mode != 0 {
		return fmt.Errorf("mode %d: want 0, Ethernet", mode)
	}
	if d.config.Secret == "" {
		return nil
	}
	var want [SecretSize]byte
	copy(want[:], d.config.Secret)
	if subtle.ConstantTimeCompare(m.bytes[9:9+SecretSize], want[:]) != 1 {
		return errors.New("the secret is missing, or another one")
	}
	return nil
}

// accept is the server's part, up to a connection. It begins with the client's Init.
func (s *session) accept(first *message) error {
	s.peer = first.text(33, nameSize)
	if err := s.send(newMessage(ack), -1); err != nil {
		return err
	}
	for {
		if err := s.receive(); err != nil {
			return err
		}
		var err error
		switch k := s.m.kind(); k {
		case addRegion:
			err = s.addRegion()
		case addRing:
			err = s.addRing()
		case connect:
			m := newMessage(connected)
			m.putText(2, nameSize, s.device.config.Name)
			return s.begin(func() error { return s.send(m, -1) })
		default:
			err = fmt.Errorf("%s before the connection", k)
		}
		if err == nil {
			err = s.send(newMessage(ack), -1)
		}
		if err != nil {
			return err
		}
	}
}

// addRegion maps what the client shares.
func (s *session) addRegion() error {
	fd, err := s.m.file()
	if err != nil {
		return err
	}
	index, size := int(s.m.get16(2)), s.m.get64(4)
	if index != len(s.memory.regions) || index >= maxRegions {
		return fmt.Errorf("region %d behind %d regions: want one after the other, at most %d", index, len(s.memory.regions), maxRegions)
	}
	if err := s.memory.add(fd, size); err != nil {
		return fmt.Errorf("region %d: %w", index, err)
	}
	return nil
}

// addRing finds a ring in what the client shares.
func (s *session) addRing() error {
	fd, err := s.m.file()
	if err != nil {
		return err
	}
	if err := shmem.Eventfd(fd); err != nil {
		return err
	}
	fromClient := s.m.get16(2)&1 != 0
	index := int(s.m.get16(4))
	if index >= s.device.config.Queues {
		return fmt.Errorf("ring %d: set queues to as many as the client has, here are %d", index, s.device.config.Queues)
	}
	q := s.device.Transmit(index)
	if fromClient {
		q = s.device.Receive(index)
	}
	for _, p := range s.rings {
		if p.queue == q {
			return fmt.Errorf("ring %d is there already", index)
		}
	}
	if n := s.m.get16(13); n != 0 {
		return fmt.Errorf("ring %d with %d bytes of the client's own in front of packets: want 0", index, n)
	}
	r, err := q.prepare(&s.memory, layout{region: s.m.get16(6), offset: s.m.get32(8), log2: s.m.bytes[12], sends: !fromClient})
	if err != nil {
		return fmt.Errorf("ring %d: %w", index, err)
	}
	s.m.take()
	s.rings = append(s.rings, pending{q, r, fd})
	return nil
}

// introduce is the client's part, up to a connection.
func (s *session) introduce() error {
	c := &s.device.config
	if err := s.expect(hello); err != nil {
		return err
	}
	if low, high := s.m.get16(34), s.m.get16(36); low > version || high < version {
		return fmt.Errorf("the server's versions %#x to %#x: want %#x", low, high, version)
	}
	s.peer = s.m.text(2, nameSize)
	toClient, fromClient := min(int(s.m.get16(40))+1, c.Queues), min(int(s.m.get16(42))+1, c.Queues)
	log2 := min(uint8(bits.Len(uint(c.RingSize))-1), s.m.bytes[44])
	m := newMessage(initialize)
	m.put16(2, version)
	m.put32(4, c.ID)
	copy(m.bytes[9:9+SecretSize], c.Secret)
	m.putText(33, nameSize, "weir")
	if err := s.ask(m, -1); err != nil {
		return err
	}
	if err := s.shareRings(fromClient, toClient, log2); err != nil {
		return err
	}
	for i, p := range s.rings {
		m := newMessage(addRing)
		index := i
		if p.ring.layout.sends {
			m.put16(2, 1)
		} else {
			index -= fromClient
		}
		m.put16(4, uint16(index))
		m.put32(8, p.ring.layout.offset)
		m.bytes[12] = log2
		if err := s.ask(m, p.file); err != nil {
			return err
		}
	}
	m = newMessage(connect)
	m.putText(2, nameSize, c.Name)
	return s.begin(func() error {
		if err := s.send(m, -1); err != nil {
			return err
		}
		return s.expect(connected)
	})
}

// shareRings makes the client's memory and rings, and passes the memory.
func (s *session) shareRings(send, receive int, log2 uint8) error {
	size := 1 << log2
	shared, fd, err := share(send+receive, size)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	s.memory = *shared
	for i := range send + receive {
		l := layout{
			offset: uint32(i * ringBytes(size)), log2: log2, lends: true, sends: i < send,
			buffers: (send+receive)*ringBytes(size) + i*bufferSize*size,
		}
		q := s.device.receive[max(i-send, 0)]
		if l.sends {
			q = s.device.transmit[i]
		}
		event, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
		if err != nil {
			return fmt.Errorf("make a notification: %w", err)
		}
		s.rings = append(s.rings, pending{q, nil, event})
		if s.rings[i].ring, err = q.prepare(&s.memory, l); err != nil {
			return err
		}
	}
	m := newMessage(addRegion)
	m.put64(4, uint64(len(s.memory.regions[0])))
	return s.ask(m, fd)
}

// begin ends the introduction by agree, and starts all rings. A server begins before it agrees, so that the
// client's first packets find it; a client when the server has agreed.
func (s *session) begin(agree func() error) error {
	server := s.device.config.Server
	if !server {
		if err := agree(); err != nil {
			return err
		}
	}
	size := 0
	for i := range s.rings {
		p := &s.rings[i]
		fd := p.file
		p.file = -1
		if err := p.queue.start(p.ring, fd); err != nil {
			return err
		}
		size = int(p.ring.size)
	}
	peer := s.peer
	if name := s.m.text(2, nameSize); name != "" {
		peer += " " + name
	}
	d := s.device
	s.joined = true
	d.mu.Lock()
	d.status = Status{Connected: true, Peer: printable.Text(peer), RingSize: size, Connections: d.status.Connections + 1}
	d.mu.Unlock()
	if server {
		return agree()
	}
	return nil
}

// stay waits for the end of the connection.
func (s *session) stay() error {
	if err := s.conn.SetReadDeadline(time.Time{}); err != nil {
		return err
	}
	if err := s.m.receive(s.conn, s.device.turn); err != nil {
		return err
	}
	return fmt.Errorf("%s while connected", s.m.kind())
}

func (s *session) send(m *message, file int) error { return m.send(s.conn, file) }

// receive reads the next message of an introduction.
func (s *session) receive() error {
	s.m.close()
	if err := s.conn.SetReadDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	return s.m.receive(s.conn, s.device.turn)
}

func (s *session) expect(k kind) error {
	if err := s.receive(); err != nil {
		return err
	}
	if got := s.m.kind(); got != k {
		return fmt.Errorf("%s: want %s", got, k)
	}
	return nil
}

// ask sends a message that is to be acknowledged.
func (s *session) ask(m *message, file int) error {
	if err := s.send(m, file); err != nil {
		return err
	}
	return s.expect(ack)
}

// forget stops all rings and gives the memory back. The descriptors of the last message are left.
func (s *session) forget() error {
	for _, list := range [][]*Queue{s.device.receive, s.device.transmit} {
		for _, q := range list {
			q.reset()
		}
	}
	for _, p := range s.rings {
		if p.file >= 0 {
			_ = unix.Close(p.file)
		}
	}
	return s.memory.unmap()
}
