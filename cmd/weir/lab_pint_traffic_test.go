package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weirswitch/weir/pipeline/header"
)

// The UDP ports of the labs.
const udpFrom, udpTo = 40000, 40001

// traffic is what hosts do: TCP, UDP in one piece and in fragments, and pings,
// over IPv4 and IPv6.
func (l *pintLab) traffic(bytes int) {
	for k, family := range []int{4, 6} {
		l.tcp(k, bytes)
		l.udp(family, 300, 100)
		l.udp(family, 40, 4000)
		l.ping(family, 100)
	}
}

func (l *pintLab) bound(host, k int, port int) string {
	return netip.AddrPortFrom(l.address[host][k], uint16(port)).String()
}

// tcp sends random bytes from h1 to h2, and wants them there.
func (l *pintLab) tcp(k, size int) {
	l.t.Helper()
	ctx, cancel := context.WithTimeout(l.t.Context(), time.Minute)
	defer cancel()
	listener, err := l.hosts[1].Listen("tcp", l.bound(1, k, 0))
	if err != nil {
		l.t.Fatal(err)
	}
	defer listener.Close()
	var received bytes.Buffer
	done := make(chan error, 1)
	go func() {
		c, err := listener.Accept()
		if err == nil {
			_, err = io.Copy(&received, c)
			c.Close()
		}
		done <- err
	}()
	c, err := l.hosts[0].Dial(ctx, "tcp", listener.Addr().String())
	if err != nil {
		l.t.Fatal(err)
	}
	sent := make([]byte, size)
	for i := range sent {
		sent[i] = byte(rand.Uint32())
	}
	if _, err := c.Write(sent); err != nil {
		l.t.Fatal(err)
	}
	c.Close()
	select {
	case err := <-done:
		if err != nil || !bytes.Equal(received.Bytes(), sent) {
			l.t.Errorf("%d of %d bytes arrived right over TCP: %v", received.Len(), size, err)
		}
	case <-ctx.Done():
		l.t.Fatal("TCP does not end")
	}
}

// packetConn opens an unconnected socket: Linux numbers the datagrams of others.
func (l *pintLab) packetConn(host int, network, address string) net.PacketConn {
	l.t.Helper()
	var c net.PacketConn
	err := l.hosts[host].Do(func() (err error) {
		c, err = net.ListenPacket(network, address)
		return err
	})
	if err != nil {
		l.t.Fatal(err)
	}
	l.t.Cleanup(func() { c.Close() })
	return c
}

// udp sends datagrams from h1 to h2, each behind the arrival of the one before.
func (l *pintLab) udp(family, count, size int) {
	l.t.Helper()
	k := family/2 - 2
	from, to := l.packetConn(0, "udp", l.bound(0, k, udpFrom)), l.packetConn(1, "udp", l.bound(1, k, udpTo))
	defer from.Close()
	defer to.Close()
	if family == 4 && size < 1400 {
		// As QUIC does: such datagrams are atomic, and their identification is zero.
		raw, err := from.(*net.UDPConn).SyscallConn()
		if err != nil {
			l.t.Fatal(err)
		}
		_ = raw.Control(func(fd uintptr) {
			err = unix.SetsockoptInt(int(fd), unix.IPPROTO_IP, unix.IP_MTU_DISCOVER, unix.IP_PMTUDISC_DO)
		})
		if err != nil {
			l.t.Fatal(err)
		}
	}
	l.exchange(from, to, to.LocalAddr(), count, func(i int) []byte {
		d := make([]byte, size)
		for j := range d {
			d[j] = byte(rand.Uint32())
		}
		return d
	})
}

// ping sends echo requests from h1, which the kernel of h2 answers.
func (l *pintLab) ping(family, count int) {
	l.t.Helper()
	network, kind := "ip4:icmp", byte(8)
	if family == 6 {
		network, kind = "ip6:ipv6-icmp", 128
	}
	k := family/2 - 2
	c := l.packetConn(0, network, l.address[0][k].String())
	defer c.Close()
	to := &net.IPAddr{IP: l.address[1][k].AsSlice()}
	l.exchange(c, c, to, count, func(i int) []byte {
		d := binary.BigEndian.AppendUint16([]byte{kind, 0, 0, 0, 0x12, 0x34}, uint16(i))
		for range 50 + i {
			d = append(d, byte(rand.Uint32()))
		}
		if family == 4 {
			binary.BigEndian.PutUint16(d[2:], header.Checksum(d))
		}
		return d
	})
}

// exchange sends datagrams and waits for each one, or an answer to it.
func (l *pintLab) exchange(from, to net.PacketConn, at net.Addr, count int, datagram func(i int) []byte) {
	l.t.Helper()
	buf := make([]byte, 65536)
	for i := range count {
		for try := 0; ; try++ {
			if _, err := from.WriteTo(datagram(i), at); err != nil {
				l.t.Fatal(err)
			}
			_ = to.SetReadDeadline(time.Now().Add(2 * time.Second))
			if _, _, err := to.ReadFrom(buf); err == nil {
				break
			} else if !errors.Is(err, os.ErrDeadlineExceeded) || try == 9 {
				l.t.Fatalf("datagram %d to %v: %v", i, at, err)
			}
		}
	}
}

// settle waits until the hosts' witnesses see nothing more.
func (l *pintLab) settle() {
	last := -1
	for deadline := time.Now().Add(2 * time.Minute); time.Now().Before(deadline); {
		time.Sleep(300 * time.Millisecond)
		n := l.seen[0].count() + l.seen[1].count()
		if n == last {
			return
		}
		last = n
	}
}

// patiently asks again and again, up to two minutes, whether something has come about that may take its
// time on a busy machine. Its caller looks at what it was in the end.
func (l *pintLab) patiently(done func() bool) {
	for range 600 {
		if done() {
			return
		}
		time.Sleep(200 * time.Millisecond)
	}
}
