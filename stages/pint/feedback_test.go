package pint

import (
	"bytes"
	"encoding/binary"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/weirswitch/weir/pipeline/header"
	"github.com/weirswitch/weir/telemetry/pint"
	pintplan "github.com/weirswitch/weir/telemetry/pint/plan"
)

const feedbackTestPort = 5010

// feedbackConfig is a plan of the fullest link alone, on each packet.
func feedbackConfig(t testing.TB) Config {
	c := DefaultConfig()
	c.Plan = savePlan(t, pintplan.Config{ID: 3, Seed: 1, Bits: 8, Queries: []pint.Query{{
		Name: "use", Value: pint.EgressUtilisation, Aggregation: pint.Maximum, Bits: 8, Frequency: 1,
		Numeric: &pint.NumericQuery{Multiplicative: true, Min: pint.UtilisationOne >> 10, Max: pint.UtilisationOne << 4, Epsilon: 0.025},
	}}})
	c.FeedbackPort, c.RoundTrip = feedbackTestPort, 10*time.Millisecond
	return c
}

// TestFeedback: the sink reports a flow's first digest at once and then once in a round trip, to the flow's source, with the
// use of the fullest link that the digests since then met. Hosts' packets arrive as they were sent.
func TestFeedback(t *testing.T) {
	for _, c := range []struct {
		name  string
		frame []byte
		ip    int
	}{
		{"IPv4", ethernet(0x0800, ipv4(64, 0x4000, 17, udp(1000, 53, make([]byte, 1400)))), header.IPv4Len},
		{"IPv6", ethernet(0x86dd, ipv6(17, udp(1000, 53, make([]byte, 1400)))), header.IPv6Len},
	} {
		t.Run(c.name, func(t *testing.T) {
			n := newChain(t, 3, feedbackConfig(t), largeFrame)
			// The sink takes a batch every 3 ms, 40 packets each: messages are about 40 packets, and 160 in 12 ms.
			for round, digests := range []int{40, 0, 0, 0, 160, 0, 0, 0, 160} {
				frames := make([][]byte, 40)
				for i := range frames {
					frames[i] = bytes.Clone(c.frame)
					binary.BigEndian.PutUint32(frames[i][len(frames[i])-1400:], uint32(40*round+i))
				}
				sent := make([][]byte, len(frames))
				for i := range frames {
					sent[i] = bytes.Clone(frames[i])
				}
				out := n.through(frames, still2)
				for i := range sent {
					if !bytes.Equal(out[i], sent[i]) {
						t.Fatalf("round %d: packet %d is changed", round, i)
					}
				}
				messages := out[len(sent):]
				if digests == 0 {
					if len(messages) > 0 {
						t.Errorf("round %d: %d messages", round, len(messages))
					}
					continue
				}
				if len(messages) == 0 {
					t.Fatalf("round %d: no message", round)
				}
				m := messages[0]
				checkFeedback(t, m, c.frame, c.ip)
				body := m[14+c.ip+header.UDPLen:]
				if got := binary.BigEndian.Uint32(body[12:]); round == 0 && got != 1 || round > 0 && (got < 150 || got > 170) {
					t.Errorf("round %d: a message about %d digests, of %d packets", round, got, digests)
				}
				if round == 0 {
					most := uint64(0)
					for _, node := range n.nodes {
						most = max(most, node.module.Utilisations()[1].Value())
					}
					if use := binary.BigEndian.Uint32(body[8:]); most == 0 || math.Abs(float64(use)/float64(most)-1) > 0.06 {
						t.Errorf("use is %d, want %d within a code and its rounding", use, most)
					}
				}
			}
			if got := counts(n.sink()); got["feedback_packets_total"] != 3 || got["lost_feedback_packets_total"] != 0 {
				t.Errorf("%v", got)
			}
		})
	}
}

func still2(int) int64 { return 1000 }

// checkFeedback compares the headers of a message with those of a packet of the flow.
func checkFeedback(t *testing.T, m, about []byte, ip int) {
	t.Helper()
	at := 14 + ip
	if len(m) != at+header.UDPLen+FeedbackLen {
		t.Fatalf("a message of %d bytes", len(m))
	}
	if !bytes.Equal(m[0:6], about[6:12]) || !bytes.Equal(m[6:12], about[0:6]) || !bytes.Equal(m[12:14], about[12:14]) {
		t.Errorf("Ethernet header % x", m[:14])
	}
	if ip == header.IPv4Len {
		h, p := header.IPv4At(m, 14), header.IPv4At(about, 14)
		if !h.ValidChecksum() || h.Src() != p.Dst() || h.Dst() != p.Src() {
			t.Errorf("IPv4 header % x", m[14:at])
		}
	} else {
		h, p := header.IPv6At(m, 14), header.IPv6At(about, 14)
		if h.Src() != p.Dst() || h.Dst() != p.Src() || header.Sum(m[at:], header.PseudoSum6(h, header.ProtoUDP, len(m)-at)) != 0xffff {
			t.Errorf("IPv6 header % x, or a wrong checksum", m[14:at])
		}
	}
	be := binary.BigEndian
	if be.Uint16(m[at:]) != feedbackTestPort || be.Uint16(m[at+2:]) != feedbackTestPort || int(be.Uint16(m[at+4:])) != len(m)-at {
		t.Errorf("UDP header % x", m[at:at+8])
	}
	if body := m[at+8:]; body[0] != feedbackVersion || body[1] != 17 || be.Uint16(body[2:]) != 1000 || be.Uint16(body[4:]) != 53 || be.Uint16(body[6:]) != 3 {
		t.Errorf("message % x", body)
	}
}

// TestFeedbackNever: of packets with tags, of groups, of other than IP, and of messages themselves there is no feedback.
func TestFeedbackNever(t *testing.T) {
	n := newChain(t, 2, feedbackConfig(t), largeFrame)
	group := ethernet(0x0800, ipv4(64, 0x4000, 17, udp(1000, 53, make([]byte, 100))))
	group[0] = 1
	frames := [][]byte{
		ethernet(0x8100, tagged(10, 0x0800, ipv4(64, 0x4000, 17, udp(1, 2, make([]byte, 100))))),
		group,
		ethernet(0x9999, make([]byte, 100)),
		ethernet(0x0800, ipv4(64, 0x4000, 17, udp(9, feedbackTestPort, make([]byte, 100)))),
	}
	if out := n.through(frames, still2); len(out) != len(frames) {
		t.Errorf("%d packets leave, of %d", len(out), len(frames))
	}
	if c := counts(n.sink()); c["sunk_packets_total"] != uint64(len(frames)) || c["feedback_packets_total"] != 0 {
		t.Errorf("%v", c)
	}
}

// TestFeedbackNeedsAQuery: a plan that does not ask for the fullest link has nothing to report.
func TestFeedbackNeedsAQuery(t *testing.T) {
	c := DefaultConfig()
	c.FeedbackPort = 70_000
	if err := c.Validate([]string{"p0"}); err == nil || !strings.Contains(err.Error(), "feedback_port: 70000") {
		t.Errorf("%v", err)
	}
	c.FeedbackPort = feedbackTestPort
	if err := c.Validate([]string{"p0"}); err != nil {
		t.Errorf("the built-in plan: %v", err)
	}
	c.Plan = savePlan(t, pintplan.Config{ID: 4, Seed: 1, Bits: 8, Queries: pintplan.Default().Queries[:1]})
	if err := c.Validate([]string{"p0"}); err == nil || !strings.Contains(err.Error(), "feedback_port: plan 4") {
		t.Errorf("%v", err)
	}
}
