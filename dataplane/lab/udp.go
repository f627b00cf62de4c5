package lab

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const udpHeader = 8 // bytes

// udp sends datagrams between the kernels' UDP sockets and checks every one.
func (l *load) udp(ctx context.Context, r *Result) error {
	receiver, err := l.sink.ListenPacket("udp", net.JoinHostPort(l.sinkIP.String(), "0"))
	if err != nil {
		return err
	}
	defer receiver.Close()
	if err := forceBuffer(receiver.(*net.UDPConn), 32<<20); err != nil {
		return fmt.Errorf("udp: enlarge the receive buffer: %w", err)
	}
	sender, err := l.source.Dial(ctx, "udp", receiver.LocalAddr().String())
	if err != nil {
		return err
	}
	defer sender.Close()
	meter := l.progress.Begin(fmt.Sprintf("udp %s -> %s, IPv%d", l.From, l.To, r.Family), int64(l.Count))
	defer meter.Done()

	headers := echoes[r.Family].header + udpHeader
	track := newTracker(l.Count, 1)
	var received atomic.Uint64
	finished := make(chan error, 1)
	go func() {
		buf, want := make([]byte, 65536), make([]byte, 65536)
		for {
			n, _, err := receiver.ReadFrom(buf)
			if isTimeout(err) {
				finished <- nil
				return
			}
			if err != nil {
				finished <- fmt.Errorf("udp: receive: %w", err)
				return
			}
			l.acceptDatagram(track, buf[:n], want, headers)
			received.Store(track.received)
			meter.Add(1)
		}
	}()
	began := time.Now()
	sent, sendErr := l.sendDatagrams(ctx, sender, headers, received.Load)
	r.Seconds = time.Since(began).Seconds()
	l.drain(ctx, sent, received.Load)
	_ = receiver.SetReadDeadline(time.Now().Add(50 * time.Millisecond)) // for copies
	recvErr := <-finished
	track.report(r, sent)
	r.PacketsPerSec = float64(sent) / r.Seconds
	return errors.Join(sendErr, recvErr)
}

func (l *load) sendDatagrams(ctx context.Context, conn net.Conn, headers int, received func() uint64) (sent uint64, err error) {
	buf := make([]byte, 65536)
	// The first datagram travels alone, for the reason that ping's first request does.
	pace := newWindow(1, l.Rate, 32, received)
	pace.patience = l.patience
	for i := 0; i < l.Count; {
		if received() > 0 {
			pace.size = uint64(l.Window)
		}
		n, err := pace.next(ctx, sent, l.Count-i)
		if err != nil {
			return sent, err
		}
		for range n {
			b := buf[:l.size(i)-headers]
			fill(b, uint64(i))
			if _, err := conn.Write(b); err != nil {
				return sent, fmt.Errorf("udp: send: %w", err)
			}
			sent++
			i++
		}
	}
	return sent, nil
}

func (l *load) acceptDatagram(track *tracker, got, buf []byte, headers int) {
	if len(got) < 8 {
		track.wrong++
		return
	}
	i := binary.BigEndian.Uint64(got)
	if i >= uint64(l.Count) {
		track.wrong++
		return
	}
	want := buf[:l.size(int(i))-headers]
	fill(want, i)
	if !bytes.Equal(got, want) {
		track.wrong++
		return
	}
	track.observe(i)
}

// forceBuffer sets a socket's receive buffer beyond the system's limit.
func forceBuffer(conn syscall.Conn, bytes int) error {
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	var setErr error
	err = raw.Control(func(fd uintptr) {
		setErr = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, bytes)
	})
	return errors.Join(err, setErr)
}
