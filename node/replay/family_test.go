package replay_test

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/weirswitch/weir/dataplane/pcapfile"
	"github.com/weirswitch/weir/dataplane/pcapfile/pcaptest"
	"github.com/weirswitch/weir/pipeline/header"
	"github.com/weirswitch/weir/telemetry/hash"
	"github.com/weirswitch/weir/telemetry/oblivious"
	"github.com/weirswitch/weir/telemetry/query"
	"github.com/weirswitch/weir/telemetry/store"
)

// familySwitch has all sketches and samples; its number and the hash family are to be
// filled in.
const familySwitch = `[switch]
name = "s%[1]d"
id = %[1]d
hash = "%[2]v"
graph = ["parse", "oblivious", "lds_ingress", "patch", "disketch", "lds_egress"]
[[port]]
name = "p0"
interface = "eth0"
[[port]]
name = "p1"
interface = "eth1"
[stages.patch]
pairs = [["p0", "p1"]]
[stages.oblivious]
size = 2000
epoch_bits = 30
flows = true
[stages.disketch]
epoch_bits = 28
[[stages.disketch.fragment]]
memory = 8192
[stages.lds_ingress]
columns = 1024
[stages.lds_egress]
columns = 1024
`

// familyNetwork is a network of two switches in a row, by its records, and the truth.
type familyNetwork struct {
	query.Engine
	keys           []query.Key // the flows, by number
	packets, bytes []float64
	delays         []int64 // ns, of each flow
}

// newFamilyNetwork replays packets of 300 flows, of either IP version, through two switches, the
// second one some time later.
func newFamilyNetwork(t *testing.T, family hash.Family) *familyNetwork {
	t.Helper()
	const flows, packets, gap = 300, 30_000, 100_000
	m := &familyNetwork{packets: make([]float64, flows), bytes: make([]float64, flows), delays: make([]int64, flows)}
	for f := range flows {
		m.keys = append(m.keys, familyKey(f))
		m.delays[f] = 50_000 + 200*int64(f)
	}
	r := rand.New(rand.NewPCG(7, 7))
	zipf := rand.NewZipf(r, 1.2, 4, flows-1)
	sent, arrived := make([]pcaptest.Record, packets), make([]pcaptest.Record, packets)
	for i := range sent {
		f := int(zipf.Uint64())
		data := familyFrame(r, &m.keys[f], uint16(i))
		m.packets[f]++
		m.bytes[f] += float64(len(data))
		at := int64(1e18) + int64(i)*gap
		sent[i] = pcaptest.Ethernet(at, data)
		arrived[i] = sent[i]
		arrived[i].Time += m.delays[f]
	}
	slices.SortStableFunc(arrived, func(a, b pcaptest.Record) int { return int(a.Time - b.Time) })
	folder := t.TempDir()
	for i, recs := range [][]pcaptest.Record{sent, arrived} {
		capture := pcaptest.Write(t, "flows.pcap", pcapfile.Format{LinkField: uint32(pcapfile.Ethernet), Nano: true}, recs...)
		c := captures(capture, "")
		c.Switch, c.Records = parsed(t, fmt.Sprintf(familySwitch, i+1, family)), folder
		if _, err := run(t, c); err != nil {
			t.Fatal(err)
		}
	}
	m.Engine = query.Engine{Store: readStore(t, folder), Confidence: 1 - 1e-6, Paths: query.PathFunc(func(query.Key) []uint32 { return []uint32{1, 2} })}
	return m
}

// familyKey is flow f's key: UDP, a third of them IPv6.
func familyKey(f int) query.Key {
	k := query.Key{Src: [16]byte{10, 0, byte(f >> 8), byte(f)}, Dst: [16]byte{10, 1, 0, 1}, SrcPort: 1024 + uint16(f), DstPort: 53, Proto: 17, Version: 4}
	if f%3 == 1 {
		k.Version = 6
		k.Src = [16]byte{0xfd, 14: byte(f >> 8), 15: byte(f)}
		k.Dst = [16]byte{0xfd, 1, 15: 1}
	}
	return k
}

// familyFrame is a packet of a flow, with a distinct payload.
func familyFrame(r *rand.Rand, k *query.Key, id uint16) string {
	ip := 20
	if k.Version == 6 {
		ip = 40
	}
	udp := 8 + 16 + r.IntN(1000)
	f := make([]byte, 14+ip+udp)
	copy(f, []byte{2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1})
	if p := f[14:]; k.Version == 4 {
		binary.BigEndian.PutUint16(f[12:], header.TypeIPv4)
		p[0], p[8], p[9] = 0x45, 64, k.Proto
		binary.BigEndian.PutUint16(p[2:], uint16(ip+udp))
		binary.BigEndian.PutUint16(p[4:], id)
		copy(p[12:16], k.Src[:])
		copy(p[16:20], k.Dst[:])
	} else {
		binary.BigEndian.PutUint16(f[12:], header.TypeIPv6)
		p[0], p[6], p[7] = 0x60, k.Proto, 64
		binary.BigEndian.PutUint16(p[4:], uint16(udp))
		copy(p[8:24], k.Src[:])
		copy(p[24:40], k.Dst[:])
	}
	p := f[14+ip:]
	binary.BigEndian.PutUint16(p, k.SrcPort)
	binary.BigEndian.PutUint16(p[2:], k.DstPort)
	binary.BigEndian.PutUint16(p[4:], uint16(udp))
	binary.BigEndian.PutUint64(p[8:], r.Uint64())
	return string(f)
}

// TestHashFamilies: switches of each hash family make records from which the same
// questions have answers of the same quality, without naming the family.
func TestHashFamilies(t *testing.T) {
	var sketchErrors, delayErrors [hash.CRC + 1]float64
	for _, family := range []hash.Family{hash.XX, hash.CRC} { // aes is under a key: telemetry/hash tests it
		m := newFamilyNetwork(t, family)
		for i := range m.Store.Samples {
			if h := m.Store.Samples[i].Sample.Hash; h != family {
				t.Fatalf("a sample of %v, of a switch of %v", h, family)
			}
		}
		m.volume(t, family)
		m.heavyHitters(t, family)
		sketchErrors[family] = m.frequencies(t, family)
		delayErrors[family] = m.between(t, family)
		if testing.Short() {
			return
		}
	}
	t.Logf("mean errors of xxhash and crc: %.2f packets, %.4f of the delay", sketchErrors, delayErrors)
	for _, f := range []hash.Family{hash.CRC} {
		if sketchErrors[f] > 1.5*sketchErrors[hash.XX] || delayErrors[f] > 1.5*delayErrors[hash.XX]+0.001 {
			t.Errorf("%v: mean errors of xxhash and crc: %.2f packets, %.4f of the delay", f, sketchErrors, delayErrors)
		}
	}
}

func totalOf(values []float64) (s float64) {
	for _, v := range values {
		s += v
	}
	return s
}

func (m *familyNetwork) volume(t *testing.T, family hash.Family) {
	packets, bytes := totalOf(m.packets), totalOf(m.bytes)
	v, err := m.Volume(nil)
	if err != nil || !v.Packets.Holds(packets) || !v.Bytes.Holds(bytes) || float64(v.NaivePackets) != 2*packets {
		t.Fatalf("%v: volume %+v, %v; sent %g packets, %g bytes", family, v, err, packets, bytes)
	}
	if math.Abs(v.Packets.Value-packets) > 0.1*packets || v.Packets.Low == v.Packets.High {
		t.Errorf("%v: %+v of %g packets", family, v.Packets, packets)
	}
	flows := 0.0
	for _, n := range m.packets {
		if n > 0 {
			flows++
		}
	}
	if c, err := m.Cardinality(); err != nil || c.Flows.Value != flows {
		t.Errorf("%v: %+v flows, %v; %g", family, c, err, flows)
	}
}

// heavyHitters asks the sample and the sketch: nearly the same flows, those that are.
func (m *familyNetwork) heavyHitters(t *testing.T, family hash.Family) {
	const theta = 0.01
	total := totalOf(m.packets)
	for _, ask := range []func() (*query.HeavyHitters, error){
		func() (*query.HeavyHitters, error) { return m.HeavyHitters(oblivious.Packets, theta, 0) },
		func() (*query.HeavyHitters, error) { return m.SketchHeavyHitters(theta, 0) },
	} {
		h, err := ask()
		if err != nil {
			t.Fatalf("%v: %v", family, err)
		}
		truly, right := 0, 0
		for f, n := range m.packets {
			if n < theta*total {
				continue
			}
			truly++
			at := slices.IndexFunc(h.Flows, func(x query.HeavyFlow) bool { return x.Key == m.keys[f] })
			if at < 0 {
				continue
			}
			right++
			if !h.Flows[at].Holds(n) {
				t.Errorf("%v, by %s: %s has %+v packets, truly %g", family, h.By, h.Flows[at].Flow, h.Flows[at].Bounded, n)
			}
		}
		if f1 := 2 * float64(right) / float64(truly+len(h.Flows)); f1 < 0.9 || truly < 15 {
			t.Errorf("%v, by %s: %d flows, %d of them of the %d heavy ones", family, h.By, len(h.Flows), right, truly)
		}
	}
}

// frequencies asks for all flows, and returns the sketch's mean error.
func (m *familyNetwork) frequencies(t *testing.T, family hash.Family) (mean float64) {
	for f, n := range m.packets {
		a, err := m.Frequency(m.keys[f])
		if err != nil || a.Sample == nil || a.Sketch == nil {
			t.Fatalf("%v, flow %d: %+v, %v", family, f, a, err)
		}
		if !a.Sample.Packets.Holds(n) || !a.Sample.Bytes.Holds(m.bytes[f]) || !a.Sketch.Holds(n) || len(a.Sketch.Path) != 2 || a.Sketch.Covered < 0.5 {
			t.Errorf("%v, flow %d: sample %+v, sketch %+v, covered %g; sent %g", family, f, a.Sample.Packets, a.Sketch.Bounded, a.Sketch.Covered, n)
		}
		mean += math.Abs(a.Sketch.Value-n) / float64(len(m.packets))
	}
	return mean
}

// between asks for the delays of flows of 20 packets and more, and returns their
// mean error.
func (m *familyNetwork) between(t *testing.T, family hash.Family) (mean float64) {
	asked, known, least := 0.0, 0.0, 100.0
	if testing.Short() {
		least /= 4
	}
	for f, n := range m.packets {
		if n < 20 || testing.Short() && f%4 != 0 {
			continue
		}
		asked++
		b, err := m.Between(query.Place{Switch: 1, Port: -1}, query.Place{Switch: 2, Port: -1}, &m.keys[f])
		if err != nil || b.Packets < n {
			t.Fatalf("%v, flow %d: %+v, %v", family, f, b, err)
		}
		if b.HasDelay {
			known++
			mean += math.Abs(b.Delay.Value-float64(m.delays[f])) / float64(m.delays[f])
		}
	}
	if known < 0.9*asked || asked < least || mean > 0.05*known {
		t.Errorf("%v: delays of %g of %g flows, with a mean error of %g", family, known, asked, mean/known)
	}
	return mean / known
}

// TestFamilyChange: a switch that was given another family makes records that say so,
// and questions over both say what is wrong instead of an answer.
func TestFamilyChange(t *testing.T) {
	folder := t.TempDir()
	for i, family := range []hash.Family{hash.XX, hash.CRC} {
		c := captures(pcaptest.Flows(t, 2000), "")
		c.Switch, c.Records = parsed(t, fmt.Sprintf(familySwitch, i+1, family)), folder
		if _, err := run(t, c); err != nil {
			t.Fatal(err)
		}
	}
	s, err := store.Read(folder)
	if err != nil {
		t.Fatal(err)
	}
	// Of two switches with one sketch, that which comes second contradicts the first.
	if c := s.Counts(); c.Conflicts == 0 || c.Unreadable != 0 {
		t.Errorf("%+v", c)
	}
	if v, err := (&query.Engine{Store: s}).Volume(nil); err == nil {
		t.Errorf("samples of two families were joined: %+v", v)
	}
	k := query.Key{Src: [16]byte{10, 0, 0, 1}, Dst: [16]byte{10, 1, 0, 1}, SrcPort: 1025, DstPort: 9, Proto: 17, Version: 4}
	if b, err := (&query.Engine{Store: s}).Between(query.Place{Switch: 1, Port: -1}, query.Place{Switch: 2, Port: -1}, &k); err == nil {
		t.Errorf("points of two families were compared: %+v", b)
	}
}
