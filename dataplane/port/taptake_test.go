package port

import (
	"bytes"
	"encoding/binary"
	"strings"
	"testing"

	"github.com/weirswitch/weir/dataplane/gso"
	"github.com/weirswitch/weir/pipeline/header"
)

// cutQueue is the queue of a TAP port with room for segments of an MTU.
func cutQueue() *tapQueue {
	q := &tapQueue{port: &Tap{}, copyQueue: copyQueue{room: 1792}}
	q.large = make([]byte, q.room+gso.MaxLarge)
	q.shared.Store(true)
	return q
}

// largeTCP is a packet of TCP over IPv4 with so much payload, as the kernel leaves it to be cut.
func largeTCP(payload int) []byte {
	d := make([]byte, 14+20+20+payload)
	copy(d, []byte{2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0})
	(*header.IPv4)(d[14:]).Init([4]byte{10, 0, 0, 1}, [4]byte{10, 0, 0, 2}, header.ProtoTCP, 64, 0, 0, len(d)-14)
	d[14+20+12] = 5 << 4
	for i := range payload {
		d[54+i] = byte(i * 7 >> 3)
	}
	return d
}

// begin has the queue cut a packet.
func (q *tapQueue) beginCut(t testing.TB, packet []byte, size int) []byte {
	t.Helper()
	q.header = [gso.HeaderSize]byte{0: gso.NeedsChecksum, 1: gso.TCP4}
	binary.LittleEndian.PutUint16(q.header[2:], 54)
	binary.LittleEndian.PutUint16(q.header[4:], uint16(size))
	binary.LittleEndian.PutUint16(q.header[6:], 34)
	binary.LittleEndian.PutUint16(q.header[8:], 16)
	first := make([]byte, q.room)
	n := copy(first, packet)
	copy(q.large[n:], packet[n:])
	n, _ = q.segment(nil, first, len(packet))
	if n <= 0 {
		t.Fatal("the packet is not cut")
	}
	return first[:n]
}

// TestCutPasses: the segments of a large packet that a queue was cutting go on in another process's.
func TestCutPasses(t *testing.T) {
	const size, segments = 1000, 8
	packet := largeTCP(size*(segments-1) + 123)
	for received := 1; received <= segments; received++ {
		old, one := cutQueue(), make([]byte, 2048)
		got := [][]byte{old.beginCut(t, packet, size)}
		for range received - 1 {
			got = append(got, bytes.Clone(one[:old.cut.Next(one)]))
		}
		old.header = [gso.HeaderSize]byte{} // of a packet that is sent
		state, err := old.AppendState(nil)
		if err != nil {
			t.Fatal(err)
		}
		q := cutQueue()
		if _, err := q.Enter(state); err != nil {
			t.Fatal(err)
		}
		if old.Leave(); old.cut.On() || q.cut.On() != (received < segments) {
			t.Fatalf("after %d segments: %v there, %v here", received, old.cut.On(), q.cut.On())
		}
		for q.cut.On() {
			got = append(got, bytes.Clone(one[:q.cut.Next(one)]))
		}
		whole := cutQueue()
		want := [][]byte{whole.beginCut(t, packet, size)}
		for whole.cut.On() {
			want = append(want, bytes.Clone(one[:whole.cut.Next(one)]))
		}
		if len(want) != segments || len(got) != segments || !bytes.Equal(bytes.Join(got, nil), bytes.Join(want, nil)) {
			t.Errorf("after %d segments: %d come, and not these %d", received, len(got), len(want))
		}
	}
	for _, c := range []struct {
		state []byte
		want  string
	}{
		{nil, "lost during the takeover"},
		{[]byte("X"), "lost during the takeover"},
		{[]byte("C\x01"), "has 2 bytes"},
		{append([]byte{'C', gso.TCP4, 1, 0, 1, 0}, packet...), "none of one that is cut"},
		{append([]byte{'C', gso.UDP, 100, 0, 1, 0}, packet...), "none of one that is cut"},
		{append([]byte{'C', gso.TCP4, 0, 8, 1, 0}, packet...), "none of one that is cut"},
		{append([]byte{'C', gso.TCP4, 100, 0, 255, 255}, packet...), "65535 segments"},
		{append([]byte{'C', gso.TCP4, 100, 0, 1, 0}, make([]byte, 1<<17)...), "bytes"},
	} {
		if _, err := cutQueue().Enter(c.state); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, and nothing of %q", err, c.want)
		}
	}
}

// FuzzTapState: no state has a queue cut what does not fit.
func FuzzTapState(f *testing.F) {
	q := cutQueue()
	q.beginCut(f, largeTCP(3000), 1000)
	state, err := q.AppendState(nil)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(state)
	f.Fuzz(func(t *testing.T, state []byte) {
		q, segment := cutQueue(), make([]byte, 1792)
		_, err := q.Enter(state)
		for n := 0; err == nil && q.cut.On(); n++ {
			if k := q.cut.Next(segment); k == 0 || n > gso.MaxLarge {
				t.Fatalf("segment %d has %d bytes", n, k)
			}
		}
	})
}
