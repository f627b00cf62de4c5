package lab

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirswitch/weir/pipeline/header"
)

// echo says what an ICMP echo looks like in one family (RFC 792, RFC 4443).
type echo struct {
	network        string
	header         int // bytes of the IP header
	request, reply byte
	checksum       bool // ours to compute; for ICMPv6 the kernel does
}

var echoes = map[int]echo{
	4: {"ip4:icmp", 20, 8, 0, true},
	6: {"ip6:ipv6-icmp", 40, 128, 129, false},
}

const (
	echoHeader  = 8           // bytes: type, code, checksum, identifier, sequence number
	pingTimeout = time.Second // after which a slot of the window is given up
)

// ping sends echo requests from the source's stack and checks every reply of
// the sink's, byte by byte.
func (l *load) ping(ctx context.Context, r *Result) error {
	kind := echoes[r.Family]
	conn, err := l.source.ListenPacket(kind.network, l.sourceIP.String())
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := conn.(*net.IPConn).SetReadBuffer(4 << 20); err != nil {
		return fmt.Errorf("ping: %w", err)
	}
	meter := l.progress.Begin(fmt.Sprintf("ping %s -> %s, IPv%d", l.From, l.To, r.Family), int64(l.Count))
	defer meter.Done()
	p := &pinger{
		load: l, kind: kind, conn: conn, meter: meter, id: uint16(os.Getpid()),
		track: newTracker(l.Count, 1), window: make(chan struct{}, l.Window),
		sentAt: make([]atomic.Int64, l.Count), began: time.Now(),
	}
	finished := make(chan error, 1)
	go func() { finished <- p.receive() }()
	sendErr := p.send(ctx)
	p.drain(ctx, p.sent.Load(), func() uint64 {
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.track.received
	})
	time.Sleep(50 * time.Millisecond) // for copies that should not be there
	_ = conn.SetReadDeadline(time.Unix(1, 0))
	recvErr := <-finished
	p.track.report(r, p.sent.Load())
	r.Seconds = time.Since(p.began).Seconds()
	r.PacketsPerSec = float64(r.Received) / r.Seconds
	if len(p.rtts) > 0 {
		slices.Sort(p.rtts)
		r.RTTMedianUs = float64(p.rtts[len(p.rtts)/2]) / 1e3
		r.RTTMaxUs = float64(p.rtts[len(p.rtts)-1]) / 1e3
	}
	return errors.Join(sendErr, recvErr)
}

// pinger is one running ping: one goroutine sends, one receives.
type pinger struct {
	*load
	kind   echo
	conn   net.PacketConn
	meter  Meter
	id     uint16
	began  time.Time
	sent   atomic.Uint64
	sentAt []atomic.Int64 // ns after began, per packet
	window chan struct{}  // holds one token per packet in flight

	// the receiver's
	mu    sync.Mutex // guards track against drain
	track *tracker
	rtts  []int64
}

// message writes the i-th echo request.
func (p *pinger) message(buf []byte, i int) []byte {
	m := buf[:p.size(i)-p.kind.header]
	m[0], m[1], m[2], m[3] = p.kind.request, 0, 0, 0
	binary.BigEndian.PutUint16(m[4:], p.id)
	binary.BigEndian.PutUint16(m[6:], uint16(i))
	fill(m[echoHeader:], uint64(i))
	if p.kind.checksum {
		binary.BigEndian.PutUint16(m[2:], header.Checksum(m))
	}
	return m
}

// send keeps the window full, but the first request travels alone: while a neighbour is
// unknown, the kernel lets packets wait, and once it answers, those that are sent from
// another processor pass them (neigh_update in net/core/neighbour.c). Hosts would reorder.
func (p *pinger) send(ctx context.Context) error {
	for range p.Window - 1 {
		p.window <- struct{}{}
	}
	buf := make([]byte, 65536)
	to := &net.IPAddr{IP: p.sinkIP.AsSlice()}
	patience := time.NewTimer(pingTimeout)
	defer patience.Stop()
	silent, before := 0, uint64(0)
	for i := range p.Count {
		patience.Reset(pingTimeout)
		select {
		case p.window <- struct{}{}:
		case <-patience.C: // a packet was lost: go on without its slot
			p.mu.Lock()
			received := p.track.received
			p.mu.Unlock()
			if silent++; received != before {
				silent, before = 0, received
			}
			if p.patience > 0 && silent >= p.patience {
				return errNothingArrives{p.sent.Load(), received}
			}
		case <-ctx.Done():
			return ctx.Err()
		}
		p.sentAt[i].Store(int64(time.Since(p.began)))
		if _, err := p.conn.WriteTo(p.message(buf, i), to); err != nil {
			return fmt.Errorf("ping: %w", err)
		}
		p.sent.Add(1)
	}
	return nil
}

// receive reads replies until the deadline that ping sets at the end.
func (p *pinger) receive() error {
	buf, want := make([]byte, 65536), make([]byte, 65536)
	for {
		n, _, err := p.conn.ReadFrom(buf)
		if isTimeout(err) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("ping: %w", err)
		}
		m := buf[:n]
		if n < echoHeader || m[0] != p.kind.reply || binary.BigEndian.Uint16(m[4:]) != p.id {
			continue // neighbour discovery, or an answer to somebody else
		}
		p.mu.Lock()
		p.accept(m, want)
		p.mu.Unlock()
	}
}

// accept counts one reply. One whose number cannot be read, or whose bytes differ, is wrong.
func (p *pinger) accept(m, buf []byte) {
	if len(m) < echoHeader+8 {
		p.track.wrong++
		return
	}
	i := binary.BigEndian.Uint64(m[echoHeader:])
	if i >= p.sent.Load()+1 || i >= uint64(p.Count) {
		p.track.wrong++
		return
	}
	// Type and checksum differ from the request's; the kernel has checked the latter.
	if want := p.message(buf, int(i)); !bytes.Equal(m[4:], want[4:]) {
		p.track.wrong++
		return
	}
	if !p.track.observe(i) {
		return
	}
	p.rtts = append(p.rtts, int64(time.Since(p.began))-p.sentAt[i].Load())
	p.meter.Add(1)
	slots := 1
	if p.track.received == 1 {
		slots = p.Window
	}
	for range slots {
		select {
		case <-p.window:
		default:
		}
	}
}
