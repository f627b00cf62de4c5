package traffic

import (
	"bytes"
	"context"
	"encoding/binary"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weirswitch/weir/dataplane/lab/netns"
	"github.com/weirswitch/weir/dataplane/lab/netnstest"
)

// record is a packet of a test's capture.
type record struct {
	us   uint32 // after the start
	data []byte
	wire int
}

// capture writes a pcap file (draft-ietf-opsawg-pcap) and reads it.
func capture(t *testing.T, records ...record) *Capture {
	t.Helper()
	c, err := ReadCapture(captureFile(t, records...))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func captureFile(t *testing.T, records ...record) string {
	t.Helper()
	var b bytes.Buffer
	put := func(words ...uint32) {
		for _, w := range words {
			b.Write(binary.LittleEndian.AppendUint32(nil, w))
		}
	}
	put(0xa1b2c3d4, 2|4<<16, 0, 0, 65535, 1)
	for _, r := range records {
		put(1000+r.us/1e6, r.us%1e6, uint32(len(r.data)), uint32(max(r.wire, len(r.data))))
		b.Write(r.data)
	}
	path := filepath.Join(t.TempDir(), "in.pcap")
	if err := os.WriteFile(path, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func filled(n int, with byte) []byte { return bytes.Repeat([]byte{with}, n) }

func TestReadCapture(t *testing.T) {
	c := capture(t,
		record{0, filled(60, 1), 0}, record{5, filled(13, 9), 0}, // the second is too short
		record{100, filled(100, 2), 1000}, record{40, filled(70, 3), 0}) // the last one's time falls
	if c.Packets() != 3 || c.Cut() != 1 || c.Skipped() != 1 {
		t.Fatalf("%d packets, %d cut, %d skipped", c.Packets(), c.Cut(), c.Skipped())
	}
	for i, want := range [][]byte{filled(60, 1), filled(100, 2), filled(70, 3)} {
		if !bytes.Equal(c.packet(i), want) {
			t.Errorf("packet %d is %v", i, c.packet(i))
		}
	}
	if got := [3]uint64(c.times); got != [3]uint64{0, 100_000, 100_000} || c.period() != 150_000 {
		t.Errorf("times %v, period %d", got, c.period())
	}
	if _, err := ReadCapture(captureFile(t)); err == nil || !strings.Contains(err.Error(), "no Ethernet packet") {
		t.Errorf("%v", err)
	}
	if _, err := ReadCapture("no such file"); err == nil {
		t.Error("a file that does not exist was read")
	}
}

// The sizes of a capture keep its shares to a sixteenth, and are what a workload takes.
func TestCaptureSizes(t *testing.T) {
	var records []record
	for i := range 160 {
		size := 60 // half
		switch {
		case i%4 == 1:
			size = 570
		case i%4 == 3:
			size = 1514
		}
		records = append(records, record{uint32(i), filled(size, 1), 0})
	}
	c := capture(t, records...)
	w := DefaultWorkload()
	w.Sizes = c.Sizes(w.MinSize())
	if err := w.Validate(); err != nil {
		t.Fatal(err)
	}
	count := map[int]int{}
	for _, size := range w.Sizes {
		count[size]++
	}
	if count[64] != 8 || count[574] != 4 || count[1518] != 4 {
		t.Errorf("%v", count)
	}
	// Mixed: no run of more than three equal ones but for the half.
	if w.Sizes[0] == w.Sizes[1] && w.Sizes[1] == w.Sizes[2] && w.Sizes[2] == w.Sizes[3] {
		t.Errorf("not mixed: %v", w.Sizes)
	}
	if sizes := capture(t, record{0, filled(20, 1), 0}).Sizes(84); sizes[0] != 84 || sizes[15] != 84 {
		t.Errorf("%v", sizes)
	}
}

// A simulated clock: each packet is due at its own time, scaled, pass after pass; a held-up source sends what it
// missed of the last millisecond and puts off the rest.
func TestCapturePacer(t *testing.T) {
	c := capture(t, record{0, filled(60, 1), 0}, record{10, filled(60, 1), 0}, record{40, filled(60, 1), 0}) // period 60 us
	p := newCapturePacer(c, 2, 0)
	var times []uint64
	for now := uint64(0); len(times) < 7; {
		n, wait := p.Due(now, 32)
		if n == 0 {
			now += wait
			continue
		}
		for range n {
			times = append(times, now)
		}
	}
	want := []uint64{0, 5000, 20000, 30000, 35000, 50000, 60000}
	for i := range want {
		if times[i] != want[i] {
			t.Fatalf("due at %v, want %v", times, want)
		}
	}
	if n, _ := p.Due(50_000_000, 1<<20); n > 3*maxLate/30_000+3 || n < 3*maxLate/30_000-3 {
		t.Errorf("%d packets at once after a hold-up", n)
	}
	if n, _ := newCapturePacer(c, 1, 0).Due(1e9, 2); n != 2 {
		t.Errorf("%d packets, the limit is 2", n)
	}
	if g := p.gap(); g != 10*time.Microsecond {
		t.Errorf("gap %v", g)
	}
}

// What is replayed over a cable arrives byte for byte, in order, at both kinds of pace.
func TestReplayArrives(t *testing.T) {
	netnstest.Require(t)
	a, b := netnstest.New(t, "wpf"), netnstest.New(t, "wpf")
	for _, err := range []error{
		netns.AddVeth(netns.End{Namespace: a, Name: "a"}, netns.End{Namespace: b, Name: "b"}, netns.Veth{}),
		a.DisableIPv6(), b.DisableIPv6(), a.SetHostOffloads("a"), b.SetHostOffloads("b"), a.SetUp("a"), b.SetUp("b"),
	} {
		must(t, err)
	}
	var records []record
	for i := range 50 {
		data := filled(60+i, byte(i))
		copy(data[12:], []byte{0x88, 0xb6})
		records = append(records, record{uint32(20 * i), data, 0})
	}
	c := capture(t, records...)
	for _, kind := range []string{"packet", "xsk"} {
		t.Run(kind, func(t *testing.T) { replayArrives(t, kind, Port{Namespace: a, Interface: "a", Core: AnyCore}, b, c) })
	}
}

func replayArrives(t *testing.T, kind string, a Port, b *netns.Namespace, c *Capture) {
	s, err := NewCaptureSource(kind, a, c, 1)
	must(t, err)
	defer s.Close()
	socket, err := b.PacketSocket("b")
	must(t, err)
	defer socket.Close()
	must(t, socket.SetDeadline(time.Now().Add(time.Minute)))
	got := make([]byte, 2048)
	for _, load := range []Load{{}, {Rate: 50_000, Count: 120}, {FirstSeq: 30}} {
		sent, err := s.Run(context.Background(), load)
		must(t, err)
		want := load.Count
		if want == 0 {
			want = 50 - load.FirstSeq
		}
		if sent.Packets != want || sent.Refused != 0 || sent.Offered <= 0 || sent.NextSeq != load.FirstSeq+want {
			t.Errorf("%+v: %+v", load, sent)
		}
		for i := range want {
			n, err := socket.Receive(got)
			if err != nil || !bytes.Equal(got[:n], c.packet(int((load.FirstSeq+i)%50))) {
				t.Fatalf("packet %d: %d bytes, %v", i, n, err)
			}
		}
	}
	if _, err := NewCaptureSource(kind, s.sender.port, c, 0); err == nil {
		t.Error("speed 0 was taken")
	}
}
