package ipfix

import (
	"context"
	"errors"
	"fmt"
	"net"
	"syscall"
	"time"
)

// Counters say what became of flows.
type Counters struct {
	Messages uint64 // sent
	Records  uint64 // of flows, in these
	Lost     uint64 // of flows, that could not be sent
	Skipped  uint64 // flows without a record: not IP
}

// session is a transport session to a target. It belongs to one goroutine.
type session struct {
	network, address string
	config           Config
	conn             net.Conn // nil: none
	packer           packer
	taught           time.Time // when templates were sent last
	counts           Counters
}

const (
	dialWait  = 5 * time.Second
	writeWait = 10 * time.Second
)

func newSession(c Config) (*session, error) {
	network, address, err := parseTarget(c.Target)
	if err != nil {
		return nil, err
	}
	s := &session{network: network, address: address, config: c}
	s.packer.domain, s.packer.emit = c.Domain, s.emit
	return s, nil
}

// send sends flows, templates in front of them where these are due. It opens the connection
// if there is none. What was not sent is counted as lost.
func (s *session) send(ctx context.Context, now time.Time, flows []Flow, w Window) error {
	before := s.counts
	err := s.open(ctx)
	if err == nil {
		s.packer.limit = s.limit()
		err = s.pack(now, flows, w)
	}
	s.counts.Lost += uint64(len(flows)) - (s.counts.Records - before.Records) - (s.counts.Skipped - before.Skipped)
	if err != nil {
		s.close()
		return fmt.Errorf("export to %s: %w", s.config.Target, err)
	}
	return nil
}

func (s *session) pack(now time.Time, flows []Flow, w Window) error {
	export := uint32(now.Unix()) // wraps in 2106, as RFC 7011 has it
	if s.taught.IsZero() || s.network == "udp" && now.Sub(s.taught) >= s.config.Templates {
		if err := s.packer.templates(export); err != nil {
			return err
		}
		s.taught = now
	}
	for i := range flows {
		ok, err := s.packer.flow(export, &flows[i], &w)
		if err != nil {
			return err
		}
		if !ok {
			s.counts.Skipped++
		}
	}
	return s.packer.flush()
}

func (s *session) open(ctx context.Context) error {
	if s.conn != nil {
		return nil
	}
	d := net.Dialer{Timeout: dialWait}
	conn, err := d.DialContext(ctx, s.network, s.address)
	if err != nil {
		return err
	}
	s.conn, s.taught, s.packer.sequence = conn, time.Time{}, 0
	return nil
}

// close ends the session: the next one begins with templates, and counts anew.
func (s *session) close() {
	s.packer.drop()
	if s.conn != nil {
		_ = s.conn.Close() // nothing is waited for
		s.conn = nil
	}
}

// emit writes a message.
func (s *session) emit(message []byte, records int) error {
	_ = s.conn.SetWriteDeadline(time.Now().Add(writeWait)) // fails on closed connections only, as Write does
	_, err := s.conn.Write(message)
	if s.network == "udp" && errors.Is(err, syscall.ECONNREFUSED) {
		// That is the answer to an earlier message, and this one was not sent. Who is not there
		// now may be there for the next one: UDP has no session to end.
		if _, err = s.conn.Write(message); errors.Is(err, syscall.ECONNREFUSED) {
			return nil
		}
	}
	if err != nil {
		return err
	}
	s.counts.Messages++
	s.counts.Records += uint64(records)
	return nil
}

// limit is how large a message may be, in bytes.
func (s *session) limit() int {
	const most = 1<<16 - 1
	if s.network != "udp" {
		return most
	}
	headers := 20 + 8
	if a, ok := s.conn.RemoteAddr().(*net.UDPAddr); ok && a.IP.To4() == nil {
		headers = 40 + 8
	}
	mtu := s.config.MTU
	if known := pathMTU(s.conn, headers == 48); known != 0 && (mtu == 0 || known < mtu) {
		mtu = known
	}
	return min(max(mtu, MinMTU), MaxMTU) - headers
}

// pathMTU asks the kernel; 0: it does not know.
func pathMTU(conn net.Conn, v6 bool) int {
	c, ok := conn.(syscall.Conn)
	if !ok {
		return 0
	}
	raw, err := c.SyscallConn()
	if err != nil {
		return 0
	}
	level, option := syscall.IPPROTO_IP, syscall.IP_MTU
	if v6 {
		level, option = syscall.IPPROTO_IPV6, syscall.IPV6_MTU
	}
	mtu := 0
	_ = raw.Control(func(fd uintptr) { mtu, err = syscall.GetsockoptInt(int(fd), level, option) })
	if err != nil {
		return 0
	}
	return mtu
}
