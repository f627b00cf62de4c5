package main

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/weirswitch/weir/dataplane/lab/netnstest"
	"github.com/weirswitch/weir/pipeline/header"
)

const (
	recordedFlows  = 40
	recordedFrames = 3000
)

// recordedFrame is frame number i of the recording that TestPintIsNotSeen plays:
// of any kind that hosts send, up to full size. The last byte of its source
// address is its flow.
func recordedFrame(r *rand.Rand) []byte {
	flow := byte(r.IntN(recordedFlows))
	f := []byte{2, 0, 0, 0, 9, 9, 2, 0, 0, 0, 7, flow}
	size := 80 + r.IntN(1421)
	if r.IntN(4) == 0 {
		size = 1500 - r.IntN(12) // where there is no room left, or just enough
	}
	switch r.IntN(8) {
	case 0:
		f = append(f, 0x81, 0, 0, flow)
	case 1:
		f = append(f, 0x88, 0xa8, 0, 7, 0x81, 0, 0, flow)
		size -= 8 // a packet socket has room beyond the MTU for a C-tag alone
	case 2: // a host's own shim, of the network's plan
		size -= 8 + r.IntN(2)*8 // or so long that it cannot be wrapped everywhere
		f = append(f, 0x88, 0xb5, 1<<4|1, byte(r.Uint32()), 0, 1, 0xde, 0xad)
	}
	body := make([]byte, size)
	for i := range body {
		body[i] = byte(r.Uint32())
	}
	proto := []byte{1, 6, 17}[r.IntN(3)]
	switch r.IntN(5) {
	case 0, 1: // with every identification, DF and fragments
		f = append(f, 8, 0)
		ip := (*header.IPv4)(body)
		ip.Init([4]byte{10, 1, 0, flow}, [4]byte{10, 2, 0, 9}, proto, 64, 0, uint16(r.Uint32()), size)
		binary.BigEndian.PutUint16(body[6:], []uint16{0x4000, 0x4000, 0, 0x2000, 0x00b9}[r.IntN(5)])
		binary.BigEndian.PutUint16(body[10:], 0)
		binary.BigEndian.PutUint16(body[10:], header.Checksum(body[:20]))
	case 2, 3: // some in fragments
		f = append(f, 0x86, 0xdd)
		next := []byte{58, proto, 44}[r.IntN(3)]
		(*header.IPv6)(body).Init([16]byte{0xfd, 15: flow}, [16]byte{0xfd, 15: 9}, next, 64, size-40)
		if next == 44 {
			body[40], body[41] = 17, 0
		}
	case 4:
		f = append(f, 0x99, 0x99)
	}
	return append(f, body...)
}

var pintSection = regexp.MustCompile(`(?m)^\[switch\.config\.stages\.pint\]\nedge = .*\n`)

// play sends the recording through a chain of five switches, and returns what
// the host at the other end captures, by flow.
func play(t *testing.T, text string, recording [][]byte) map[byte][][]byte {
	t.Helper()
	l := newPintLab(t, text, flatAddresses)
	sender, err := l.hosts[0].PacketSocket("eth0")
	if err != nil {
		t.Fatal(err)
	}
	defer sender.Close()
	receiver, err := l.hosts[1].PacketSocket("eth0")
	if err != nil {
		t.Fatal(err)
	}
	defer receiver.Close()
	done := make(chan error, 1)
	go func() {
		for i, f := range recording {
			if err := sender.Send(f); err != nil {
				done <- err
				return
			}
			if i%32 == 31 {
				time.Sleep(4 * time.Millisecond)
			}
		}
		done <- nil
	}()
	captured := map[byte][][]byte{}
	keep := func(f []byte) bool {
		ours := bytes.HasPrefix(f[6:], []byte{2, 0, 0, 0, 7})
		if ours {
			captured[f[11]] = append(captured[f[11]], bytes.Clone(f))
		}
		return ours
	}
	// Until all are there, however long a busy machine takes; then what should not come may.
	if _, err := receiver.ReceiveAll(2*time.Minute, len(recording), keep); err != nil {
		t.Fatal(err)
	}
	if _, err := receiver.ReceiveAll(300*time.Millisecond, 0, keep); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if strings.Contains(text, `"pint"`) {
		l.awaitDigests("s5")
		if paths := l.paths("s5"); len(paths) < recordedFlows {
			t.Errorf("the sink saw digests of %d flows alone", len(paths))
		}
	}
	return captured
}

// TestPintIsNotSeen plays one recording through five switches, with PINT and
// without: the far host captures the same bytes in the same order, flow by flow.
// Once the links between the switches have just enough room for the shim, and
// once full packets must go without.
func TestPintIsNotSeen(t *testing.T) {
	netnstest.Require(t)
	r := rand.New(rand.NewPCG(4, 4))
	var recording, wrappable [][]byte
	for range recordedFrames {
		f := recordedFrame(r)
		recording = append(recording, f)
		// With links of 1500 bytes a host's long shim is dropped, as it could be
		// taken for the network's.
		shim := f[12] == 0x88 && f[13] == 0xb5
		if !shim || len(f)+8 <= 1514 {
			wrappable = append(wrappable, f)
		}
	}
	with := chainOfFive(`["parse", "l2", "pint"]`, "", false)
	without := pintSection.ReplaceAllString(strings.ReplaceAll(with, `, "pint"`, ""), "")
	for _, c := range []struct {
		mtu       string
		recording [][]byte
	}{{"1508", recording}, {"1500", wrappable}} {
		if testing.Short() && c.mtu == "1500" {
			break
		}
		t.Run(c.mtu, func(t *testing.T) {
			mtu := strings.NewReplacer("mtu = 1600", "mtu = "+c.mtu)
			var plain, measured map[byte][][]byte
			t.Run("without", func(t *testing.T) { plain = play(t, mtu.Replace(without), c.recording) })
			t.Run("with", func(t *testing.T) { measured = play(t, mtu.Replace(with), c.recording) })
			total := 0
			for flow, want := range plain {
				got := measured[flow]
				total += len(want)
				if len(got) != len(want) {
					t.Errorf("flow %d: %d frames with PINT, %d without", flow, len(got), len(want))
				}
				for i := range min(len(got), len(want)) {
					if !bytes.Equal(got[i], want[i]) {
						t.Fatalf("flow %d, frame %d: with PINT % x\nwithout % x", flow, i, got[i][:60], want[i][:60])
					}
				}
			}
			t.Logf("%d frames of %d flows", total, len(plain))
			if total != len(c.recording) || len(plain) != recordedFlows {
				t.Errorf("without PINT %d of %d frames arrived, of %d flows", total, len(c.recording), len(plain))
			}
		})
	}
}
