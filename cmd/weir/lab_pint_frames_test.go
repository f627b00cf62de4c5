package main

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/weirswitch/weir/dataplane/lab/netns"
	"github.com/weirswitch/weir/pipeline/header"
)

// witness keeps all frames of a host's interface, in both directions.
type witness struct {
	file *os.File
	mu   sync.Mutex
	all  [2][][]byte // received, sent
}

func newWitness(t *testing.T, ns *netns.Namespace) *witness {
	t.Helper()
	link, err := ns.Link("eth0")
	if err != nil {
		t.Fatal(err)
	}
	if err := ns.SeparateFrames("eth0"); err != nil {
		t.Fatal(err)
	}
	w := &witness{}
	err = ns.Do(func() error {
		all := uint16(unix.ETH_P_ALL)
		protocol := all<<8 | all>>8
		fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, int(protocol))
		if err != nil {
			return err
		}
		w.file = os.NewFile(uintptr(fd), "witness")
		return errors.Join(unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 64<<20),
			unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: protocol, Ifindex: link.Attrs().Index}))
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.file.Close() })
	go w.watch()
	return w
}

func (w *witness) watch() {
	raw, err := w.file.SyscallConn()
	if err != nil {
		return
	}
	buf := make([]byte, 1<<17)
	for {
		var n int
		var from unix.Sockaddr
		var got error
		if raw.Read(func(fd uintptr) bool {
			n, from, got = unix.Recvfrom(int(fd), buf, 0)
			return !errors.Is(got, unix.EAGAIN)
		}) != nil || got != nil {
			return
		}
		direction := 0
		if ll, ok := from.(*unix.SockaddrLinklayer); ok && ll.Pkttype == unix.PACKET_OUTGOING {
			direction = 1
		}
		w.mu.Lock()
		w.all[direction] = append(w.all[direction], bytes.Clone(buf[:n]))
		w.mu.Unlock()
	}
}

// stop ends it: what has been seen stays.
func (w *witness) stop() { w.file.Close() }

func (w *witness) forget() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.all = [2][][]byte{}
}

func (w *witness) count() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.all[0]) + len(w.all[1])
}

func (w *witness) frames(sent bool) [][]byte {
	w.mu.Lock()
	defer w.mu.Unlock()
	if sent {
		return w.all[1]
	}
	return w.all[0]
}

// lost reports whether the socket's queue overflowed.
func (w *witness) lost() (lost bool) {
	raw, err := w.file.SyscallConn()
	if err != nil {
		return true
	}
	_ = raw.Control(func(fd uintptr) {
		s, err := unix.GetsockoptTpacketStats(int(fd), unix.SOL_PACKET, unix.PACKET_STATISTICS)
		lost = err != nil || s.Drops != 0
	})
	return lost
}

// compare wants each frame that a host received to be one that the other host sent, as
// the network should have changed it, and none to be missing. Group
// addresses and neighbour discovery are left out: routers do not pass them.
func (l *pintLab) compare(to int, change func([]byte) []byte) {
	l.t.Helper()
	l.compareAtLeast(to, 200, change) // as many as pings are answered; how many acknowledgements TCP sends is its own affair
}

func (l *pintLab) compareAtLeast(to, least int, change func([]byte) []byte) {
	l.t.Helper()
	var total, missing int
	var wrong []string
	// On a busy machine frames may be in flight for long after they were sent.
	l.patiently(func() bool {
		total, missing, wrong = l.difference(to, change)
		return total >= least && missing == 0
	})
	for _, f := range wrong[:min(len(wrong), 5)] {
		l.t.Errorf("host %d received a frame that was not sent so: % x", to+1, f[:min(len(f), 80)])
	}
	text := fmt.Sprintf("host %d received %d frames: %d other than they were sent, %d missing", to+1, total, len(wrong), missing)
	if total < least || len(wrong) != 0 || missing != 0 || l.seen[0].lost() || l.seen[1].lost() {
		l.t.Error(text)
		return
	}
	l.t.Log(text)
}

// difference counts the frames that a host received, those that are missing, and returns those that
// were not sent so.
func (l *pintLab) difference(to int, change func([]byte) []byte) (total, missing int, wrong []string) {
	sent, received := map[string]int{}, map[string]int{}
	for _, f := range l.seen[1-to].frames(true) {
		if countable(f) {
			sent[string(change(bytes.Clone(f)))]++
		}
	}
	for _, f := range l.seen[to].frames(false) {
		if countable(f) {
			received[string(comparable(f, len(change(bytes.Clone(f)))))]++
		}
	}
	for f, n := range received {
		total += n
		for range n - sent[f] {
			wrong = append(wrong, f)
		}
	}
	for f, n := range sent {
		missing += max(0, n-received[f])
	}
	return total, missing, wrong
}

// countable leaves out what is not from host to host.
func countable(f []byte) bool {
	typ := binary.BigEndian.Uint16(f[12:])
	if f[0]&1 != 0 || typ != header.TypeIPv4 && typ != header.TypeIPv6 {
		return false
	}
	return typ != header.TypeIPv6 || f[20] != header.ProtoICMPv6 || f[54] < 133 || f[54] > 137
}

// comparable is what of a received frame routed frames are compared by.
func comparable(f []byte, n int) []byte { return f[len(f)-n:] }

// routed is an IP packet behind that many routers, without the link header.
func routed(f []byte, hops int, clear bool) []byte {
	f = f[14:]
	if f[0]>>4 == 6 {
		f[7] -= byte(hops)
		return f
	}
	ip := (*header.IPv4)(f)
	ip.SetTTL(ip.TTL() - byte(hops))
	if clear && ip.DontFragment() && !ip.Fragment() {
		ip.SetID(0)
	}
	return f
}
