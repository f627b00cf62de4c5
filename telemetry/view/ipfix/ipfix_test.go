package ipfix

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/netsampler/goflow2/v2/decoders/netflow"

	"github.com/weirswitch/weir/telemetry/query"
)

func key(t testing.TB, text string) query.Key {
	t.Helper()
	k, err := query.ParseKey(text)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// someFlows are n flows of both IP versions, of 5-tuples and pairs of addresses, of known packets, bytes
// or both.
func someFlows(t testing.TB, n int) (flows []Flow) {
	for i := range n {
		var f Flow
		switch i % 4 {
		case 0, 1:
			f.Key = key(t, fmt.Sprintf("10.0.%d.%d:%d > 10.1.0.1:443 tcp", i>>8, i&255, 1024+i))
		case 2:
			f.Key = key(t, fmt.Sprintf("[fd00::%x]:%d > [fd01::1]:53 udp", i, 1024+i))
		case 3:
			f.Key = key(t, fmt.Sprintf("fd00::%x > fd01::1", i))
		}
		b := &query.Bounded{Value: float64(1000 + i), Low: float64(900 + i), High: float64(1100 + i)}
		if i%3 != 0 {
			f.Packets = b
		}
		if i%3 != 1 {
			f.Bytes = &query.Bounded{Value: 1500.4 * b.Value, Low: 1500 * b.Low, High: 1600 * b.High}
		}
		flows = append(flows, f)
	}
	return flows
}

// decoder is goflow2's, and what it made of messages.
type decoder struct {
	templates netflow.NetFlowTemplateSystem
	flows     []Flow
	windows   map[Window]bool
	next      uint32 // sequence number expected
	lost      uint32 // records, by the sequence numbers
}

func newDecoder() *decoder {
	return &decoder{templates: netflow.CreateTemplateSystem(), windows: map[Window]bool{}}
}

func (d *decoder) decode(message []byte, domain uint32) error {
	var p netflow.IPFIXPacket
	var v9 netflow.NFv9Packet
	if err := netflow.DecodeMessageVersion(bytes.NewBuffer(message), d.templates, &v9, &p); err != nil {
		return err
	}
	if p.Version != 10 || int(p.Length) != len(message) || p.ObservationDomainId != domain {
		return fmt.Errorf("version %d, length %d of %d, domain %d", p.Version, p.Length, len(message), p.ObservationDomainId)
	}
	d.lost += p.SequenceNumber - d.next
	d.next = p.SequenceNumber
	for _, set := range p.FlowSets {
		data, ok := set.(netflow.DataFlowSet)
		if !ok {
			continue
		}
		for _, r := range data.Records {
			f, w, err := flowOf(r.Values)
			if err != nil {
				return err
			}
			d.flows = append(d.flows, f)
			d.windows[w] = true
			d.next++
		}
	}
	return nil
}

// flowOf reads what goflow2 found in a record.
func flowOf(values []netflow.DataField) (f Flow, w Window, err error) {
	var last **query.Bounded
	for _, v := range values {
		b := v.Value.([]byte)
		number := uint64(0)
		for _, x := range b {
			number = number<<8 | uint64(x)
		}
		switch v.Type {
		case netflow.IPFIX_FIELD_sourceIPv4Address, netflow.IPFIX_FIELD_sourceIPv6Address:
			copy(f.Key.Src[:], b)
		case netflow.IPFIX_FIELD_destinationIPv4Address, netflow.IPFIX_FIELD_destinationIPv6Address:
			copy(f.Key.Dst[:], b)
		case netflow.IPFIX_FIELD_sourceTransportPort:
			f.Key.SrcPort = uint16(number)
		case netflow.IPFIX_FIELD_destinationTransportPort:
			f.Key.DstPort = uint16(number)
		case netflow.IPFIX_FIELD_protocolIdentifier:
			f.Key.Proto = uint8(number)
		case netflow.IPFIX_FIELD_ipVersion:
			f.Key.Version = uint8(number)
		case netflow.IPFIX_FIELD_flowStartMilliseconds:
			w.Start = int64(number) * 1e6
		case netflow.IPFIX_FIELD_flowEndMilliseconds:
			w.End = int64(number) * 1e6
		case netflow.IPFIX_FIELD_packetDeltaCount:
			f.Packets = &query.Bounded{Value: float64(number)}
			last = &f.Packets
		case netflow.IPFIX_FIELD_octetDeltaCount:
			f.Bytes = &query.Bounded{Value: float64(number)}
			last = &f.Bytes
		case netflow.IPFIX_FIELD_upperCILimit:
			(*last).High = math.Float64frombits(number)
		case netflow.IPFIX_FIELD_lowerCILimit:
			(*last).Low = math.Float64frombits(number)
		case netflow.IPFIX_FIELD_confidenceLevel:
			w.Confidence = math.Float64frombits(number)
		default:
			return f, w, fmt.Errorf("element %d", v.Type)
		}
	}
	return f, w, nil
}

// rounded are flows as counts in integers have them.
func rounded(flows []Flow) []Flow {
	var list []Flow
	for _, f := range flows {
		for _, b := range []**query.Bounded{&f.Packets, &f.Bytes} {
			if *b != nil {
				c := **b
				c.Value = math.Round(c.Value)
				*b = &c
			}
		}
		list = append(list, f)
	}
	return list
}

var aWindow = Window{Start: 1_700_000_000_123_456_789, End: 1_700_000_068_842_933_525, Confidence: 0.95}

// TestPacker: goflow2 reads what was packed, of any size of messages, and its numbers tell what was lost.
func TestPacker(t *testing.T) {
	for _, limit := range []int{MinMTU - 48, 1472, 65507, 65535} {
		flows := someFlows(t, 1500)
		d := newDecoder()
		var sizes []int
		p := packer{domain: 7, limit: limit}
		p.emit = func(m []byte, _ int) error {
			sizes = append(sizes, len(m))
			return d.decode(bytes.Clone(m), 7)
		}
		if err := p.templates(1_700_000_100); err != nil {
			t.Fatal(err)
		}
		for i := range flows {
			if ok, err := p.flow(1_700_000_100, &flows[i], &aWindow); !ok || err != nil {
				t.Fatalf("flow %d: %v, %v", i, ok, err)
			}
		}
		if err := p.flush(); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(rounded(flows), d.flows); diff != "" {
			t.Errorf("limit %d: %s", limit, diff)
		}
		want := Window{Start: 1_700_000_000_123_000_000, End: 1_700_000_068_843_000_000, Confidence: 0.95}
		if len(d.windows) != 1 || !d.windows[want] || d.lost != 0 || p.sequence != 1500 {
			t.Errorf("limit %d: windows %v, %d lost, sequence %d", limit, d.windows, d.lost, p.sequence)
		}
		for i, n := range sizes {
			if n > limit || i < len(sizes)-1 && n < limit-150 {
				t.Errorf("limit %d: message %d of %d bytes", limit, i, n)
			}
		}
	}
}

// TestTemplateLengths: each record is as long as its template says.
func TestTemplateLengths(t *testing.T) {
	for x := range templates {
		if !x.used() {
			continue
		}
		f := Flow{Packets: &query.Bounded{}, Bytes: &query.Bounded{}}
		want := 0
		for _, e := range x.fields() {
			want += int(e.length)
		}
		if got := len(x.append(nil, &f, &aWindow)); got != want {
			t.Errorf("template %d: a record of %d bytes, of %d", x.id(), got, want)
		}
		list := x.fields()
		if b := x.appendTemplate(nil); len(b) != 4+4*len(list) || binary.BigEndian.Uint16(b[2:]) != uint16(len(list)) {
			t.Errorf("template %d: %x", x.id(), b)
		}
	}
}

// TestOddFlows: what has no record is left out, and no estimate makes a wrong count.
func TestOddFlows(t *testing.T) {
	b := &query.Bounded{Value: 1}
	for _, f := range []Flow{{Packets: b}, {Key: key(t, "10.0.0.1 > 10.0.0.2")}, {Key: query.Key{Version: 5}, Bytes: b}} {
		if x, ok := templateOf(&f); ok {
			t.Errorf("%+v has template %d", f, x)
		}
	}
	for value, want := range map[float64]uint64{-3: 0, 0.4: 0, 0.6: 1, 1e30: math.MaxUint64, math.Inf(1): math.MaxUint64, math.NaN(): 0} {
		if got := binary.BigEndian.Uint64(appendCount(nil, &query.Bounded{Value: value})); got != want {
			t.Errorf("%g counts as %d", value, got)
		}
	}
}

// receiver hears messages over UDP.
func receiver(t *testing.T, address string) (*net.UDPConn, string) {
	t.Helper()
	c, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.MustParseAddrPort(address)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c, "udp://" + c.LocalAddr().String()
}

// hear reads the next n messages.
func hear(t *testing.T, c *net.UDPConn, n uint64) (messages [][]byte) {
	t.Helper()
	buffer := make([]byte, 1<<16)
	for range n {
		if err := c.SetReadDeadline(time.Now().Add(2 * time.Minute)); err != nil {
			t.Fatal(err)
		}
		n, err := c.Read(buffer)
		if err != nil {
			t.Fatal(err)
		}
		messages = append(messages, bytes.Clone(buffer[:n]))
	}
	return messages
}

// TestUDP: over real sockets of both IP versions, with messages within the MTU; a collector that
// missed the templates reads flows once these came again, and knows what it missed.
func TestUDP(t *testing.T) {
	for _, address := range []string{"127.0.0.1:0", "[::1]:0"} {
		c, target := receiver(t, address)
		config := DefaultConfig()
		config.Target, config.MTU, config.Domain = target, 576, 3
		if err := config.Validate(); err != nil {
			t.Fatal(err)
		}
		s, err := newSession(config)
		if err != nil {
			t.Fatal(err)
		}
		defer s.close()
		flows := someFlows(t, 40)
		now := time.Unix(1_700_000_100, 0)
		send := func(at time.Time) [][]byte {
			t.Helper()
			before := s.counts.Messages
			if err := s.send(t.Context(), at, flows, aWindow); err != nil {
				t.Fatal(err)
			}
			return hear(t, c, s.counts.Messages-before)
		}
		first := send(now)
		if len(first) < 5 {
			t.Errorf("%d messages", len(first))
		}
		headers := 28
		if strings.HasPrefix(address, "[") {
			headers = 48
		}
		for _, m := range first {
			if len(m)+headers > 576 {
				t.Errorf("a message of %d bytes", len(m))
			}
		}
		whole, late := newDecoder(), newDecoder()
		for _, m := range first {
			if err := whole.decode(m, 3); err != nil {
				t.Error(err)
			}
		}
		// No templates within their interval: who comes late knows nothing yet.
		for _, m := range send(now.Add(config.Templates - 1)) {
			if err := whole.decode(m, 3); err != nil {
				t.Error(err)
			}
			if err := late.decode(m, 3); !errors.Is(err, netflow.ErrorTemplateNotFound) {
				t.Errorf("without templates: %v", err)
			}
		}
		if len(late.flows) != 0 {
			t.Errorf("%d flows without templates", len(late.flows))
		}
		for _, m := range send(now.Add(config.Templates)) {
			for _, d := range []*decoder{whole, late} {
				if err := d.decode(m, 3); err != nil {
					t.Error(err)
				}
			}
		}
		want := rounded(flows)
		if diff := cmp.Diff(want, late.flows); diff != "" || late.lost != 80 {
			t.Errorf("late, with %d lost: %s", late.lost, diff)
		}
		if len(whole.flows) != 120 || whole.lost != 0 || s.counts.Records != 120 || s.counts.Lost != 0 {
			t.Errorf("%d flows, %d lost, %+v", len(whole.flows), whole.lost, s.counts)
		}
	}
}

// TestUDPUnreachable: nobody listens, and then somebody does.
func TestUDPUnreachable(t *testing.T) {
	c, target := receiver(t, "127.0.0.1:0")
	c.Close()
	config := DefaultConfig()
	config.Target = target
	s, err := newSession(config)
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	flows := someFlows(t, 3)
	for range 3 {
		if err := s.send(t.Context(), time.Now(), flows, aWindow); err != nil {
			t.Error(err)
		}
	}
	if s.counts.Records+s.counts.Lost != 9 {
		t.Errorf("%+v", s.counts)
	}
	c, _ = receiver(t, strings.TrimPrefix(target, "udp://"))
	s.taught = time.Time{}
	if err := s.send(t.Context(), time.Now(), flows, aWindow); err != nil {
		t.Fatal(err)
	}
	d := newDecoder()
	for len(d.flows) < 3 {
		if err := d.decode(hear(t, c, 1)[0], 0); err != nil {
			t.Fatal(err)
		}
	}
}

// TestTCP: templates once per connection, and a new session behind one that broke.
func TestTCP(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	config := DefaultConfig()
	config.Target = "tcp://" + l.Addr().String()
	s, err := newSession(config)
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	flows := append(someFlows(t, 900), Flow{Packets: &query.Bounded{Value: 1}})
	read := func(c net.Conn, d *decoder, n int) {
		t.Helper()
		_ = c.SetReadDeadline(time.Now().Add(2 * time.Minute))
		for len(d.flows) < n {
			header := make([]byte, messageHeader)
			if _, err := io.ReadFull(c, header); err != nil {
				t.Fatal(err)
			}
			m := append(header, make([]byte, int(binary.BigEndian.Uint16(header[2:]))-messageHeader)...)
			if _, err := io.ReadFull(c, m[messageHeader:]); err != nil {
				t.Fatal(err)
			}
			if err := d.decode(m, 0); err != nil {
				t.Fatal(err)
			}
		}
	}
	for session := range 2 {
		if err := s.send(t.Context(), time.Now(), flows, aWindow); err != nil {
			t.Fatal(err)
		}
		c, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		d := newDecoder()
		read(c, d, 900)
		if err := s.send(t.Context(), time.Now().Add(time.Hour), flows, aWindow); err != nil {
			t.Fatal(err)
		}
		read(c, d, 1800)
		if d.lost != 0 || d.next != 1800 || s.counts.Skipped != uint64(2*session+2) {
			t.Errorf("session %d: %d lost, next %d, %+v", session, d.lost, d.next, s.counts)
		}
		// The collector goes away: a message or two vanish, until the reset arrives.
		_ = c.(*net.TCPConn).SetLinger(0)
		c.Close()
		for deadline := time.Now().Add(2 * time.Minute); s.conn != nil; time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatal("the session did not end")
			}
			before := s.counts
			if err := s.send(t.Context(), time.Now(), flows[:1], aWindow); err != nil && s.counts.Lost != before.Lost+1 {
				t.Errorf("%+v: %v", s.counts, err)
			}
		}
	}
}

func TestValidate(t *testing.T) {
	c := DefaultConfig()
	if err := c.Validate(); err != nil {
		t.Error(err)
	}
	for _, target := range []string{"udp://192.0.2.1:4739", "tcp://[fd00::1]:4739", "192.0.2.1:4739", "[fd00::1]:4739", "udp://collector:4739"} {
		c.Target = target
		if err := c.Validate(); err != nil {
			t.Error(err)
		}
	}
	bad := Config{Target: "http://x", Interval: 1, Delay: -1, Theta: math.NaN(), Templates: time.Hour, MTU: 100}
	err := bad.Validate()
	for _, part := range []string{"target: ", "interval: ", "delay: ", "theta: ", "templates: ", "mtu: "} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("no %q in %v", part, err)
		}
	}
	for _, target := range []string{"192.0.2.1", "udp://192.0.2.1", "udp://:4739", "tcp://h:1/path", "tcp://user@h:1", "udp://h:1?x", "%", "udp://[::1"} {
		c.Target = target
		if c.Validate() == nil {
			t.Errorf("target %q passed", target)
		}
	}
}
