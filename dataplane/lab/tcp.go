package lab

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	tcpBlock    = 256 << 10   // bytes written and hashed at a time
	tcpPatience = time.Minute // without any progress, after which a stream is given up
)

// tcp transfers bytes over the two kernels' TCP, in parallel streams. Each end hashes
// what it wrote or read; the hashes must be equal.
//
// The streams' buffers hold one window, so no more than that is ever in flight: a
// loss is then the network's fault, not the sign of a full queue by which TCP finds its rate.
func (l *load) tcp(ctx context.Context, r *Result) error {
	listener, err := l.listenTCP(ctx)
	if err != nil {
		return err
	}
	defer listener.Close()
	// A stream that fails takes the others with it.
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { listener.Close() })
	defer stop()
	meter := l.progress.Begin(fmt.Sprintf("tcp %s -> %s, IPv%d", l.From, l.To, r.Family), l.Bytes)
	defer meter.Done()

	streams := make([]stream, l.Streams)
	var all sync.WaitGroup
	began := time.Now()
	for i := range streams {
		s := &streams[i]
		s.number, s.bytes = uint64(i), l.Bytes/int64(l.Streams)
		if i == 0 {
			s.bytes += l.Bytes % int64(l.Streams)
		}
		all.Go(func() {
			if s.sendErr = s.send(ctx, l, listener.Addr().String()); s.sendErr != nil {
				cancel()
			}
		})
		all.Go(func() {
			if err := receiveStream(ctx, listener, streams, meter); err != nil {
				s.acceptErr = err // of some stream, not needfully this one
				cancel()
			}
		})
	}
	all.Wait()
	r.Seconds = time.Since(began).Seconds()
	return tcpResult(streams, r)
}

func tcpResult(streams []stream, r *Result) error {
	var errs []error
	r.Flows = len(streams)
	for i := range streams {
		s := &streams[i]
		errs = append(errs, s.sendErr, s.acceptErr)
		r.Sent += s.sent
		r.Received += s.received
		r.Retransmitted += s.retransmitted
		r.Digests = append(r.Digests, [2]string{s.sentDigest, s.receivedDigest})
		if s.sentDigest != s.receivedDigest || s.sentDigest == "" {
			r.Wrong++
		}
	}
	r.Lost = r.Sent - min(r.Sent, r.Received)
	r.GbitPerSec = float64(r.Received) * 8 / 1e9 / r.Seconds
	return errors.Join(errs...)
}

// stream is one TCP connection. The sender's and the receiver's fields have
// different writers.
type stream struct {
	number uint64
	bytes  int64

	sent           uint64
	sentDigest     string
	retransmitted  uint64
	sendErr        error
	received       uint64
	receivedDigest string
	acceptErr      error
}

// bounded limits a socket's buffers before it connects, when it still shapes the offered window.
func (l *load) bounded(_, _ string, raw syscall.RawConn) error {
	var setErr error
	err := raw.Control(func(fd uintptr) {
		// The kernel doubles the value, for its own bookkeeping.
		setErr = errors.Join(unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_SNDBUFFORCE, l.Window),
			unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, l.Window))
	})
	return errors.Join(err, setErr)
}

func (l *load) listenTCP(ctx context.Context) (listener net.Listener, err error) {
	config := net.ListenConfig{Control: l.bounded}
	err = l.sink.Do(func() error {
		listener, err = config.Listen(ctx, "tcp", net.JoinHostPort(l.sinkIP.String(), "0"))
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("tcp: listen: %w", err)
	}
	return listener, nil
}

// send connects and writes: the stream's number, random bytes, and the end.
func (s *stream) send(ctx context.Context, l *load, address string) error {
	var conn net.Conn
	dialer := net.Dialer{Control: l.bounded, Timeout: tcpPatience}
	err := l.source.Do(func() (err error) {
		conn, err = dialer.DialContext(ctx, "tcp", address)
		return err
	})
	if err != nil {
		return fmt.Errorf("tcp: connect stream %d: %w", s.number, err)
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	digest := sha256.New()
	if err := s.write(conn, digest); err != nil {
		return fmt.Errorf("tcp: send stream %d: %w", s.number, err)
	}
	s.sentDigest = hex.EncodeToString(digest.Sum(nil))
	s.retransmitted = retransmissions(conn)
	return nil
}

func (s *stream) write(conn net.Conn, digest hash.Hash) error {
	header := binary.BigEndian.AppendUint64(nil, s.number)
	if _, err := conn.Write(header); err != nil {
		return err
	}
	random := rand.New(rand.NewPCG(s.number, uint64(s.bytes)))
	block := make([]byte, tcpBlock)
	for left := s.bytes; left > 0; {
		for i := 0; i < len(block); i += 8 {
			binary.LittleEndian.PutUint64(block[i:], random.Uint64())
		}
		b := block[:min(left, tcpBlock)]
		digest.Write(b)
		_ = conn.SetWriteDeadline(time.Now().Add(tcpPatience))
		n, err := conn.Write(b)
		s.sent += uint64(n)
		if err != nil {
			return err
		}
		left -= int64(n)
	}
	tcp := conn.(*net.TCPConn)
	if err := tcp.CloseWrite(); err != nil {
		return err
	}
	// The far end closes once it has read all; only then are retransmissions final.
	_ = conn.SetReadDeadline(time.Now().Add(tcpPatience))
	_, err := conn.Read(header)
	if err == io.EOF {
		return nil
	}
	return fmt.Errorf("wait for the far end to finish: %w", err)
}

// receiveStream accepts one connection, reads it to its end, and notes it at its stream.
func receiveStream(ctx context.Context, listener net.Listener, streams []stream, meter Meter) error {
	conn, err := listener.Accept()
	if err != nil {
		return fmt.Errorf("tcp: accept: %w", err)
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	var header [8]byte
	_ = conn.SetReadDeadline(time.Now().Add(tcpPatience))
	if _, err := io.ReadFull(conn, header[:]); err != nil {
		return fmt.Errorf("tcp: receive: %w", err)
	}
	number := binary.BigEndian.Uint64(header[:])
	if number >= uint64(len(streams)) {
		return fmt.Errorf("tcp: receive: the bytes of a stream's number are wrong: %x", header)
	}
	digest, block, received := sha256.New(), make([]byte, tcpBlock), uint64(0)
	for {
		_ = conn.SetReadDeadline(time.Now().Add(tcpPatience))
		n, err := conn.Read(block)
		digest.Write(block[:n])
		received += uint64(n)
		meter.Add(int64(n))
		if err == io.EOF {
			break
		}
		if err != nil {
			return fmt.Errorf("tcp: receive stream %d after %d bytes: %w", number, received, err)
		}
	}
	streams[number].received = received
	streams[number].receivedDigest = hex.EncodeToString(digest.Sum(nil))
	return nil
}

// retransmissions reads how many segments a connection has retransmitted.
func retransmissions(conn net.Conn) uint64 {
	raw, err := conn.(*net.TCPConn).SyscallConn()
	if err != nil {
		return 0
	}
	var n uint64
	_ = raw.Control(func(fd uintptr) {
		if info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO); err == nil {
			n = uint64(info.Total_retrans)
		}
	})
	return n
}
