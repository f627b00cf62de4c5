package vectors

import (
	"encoding/binary"
	"fmt"
	"math/bits"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/weirswitch/weir/p4/tables"
	"github.com/weirswitch/weir/pipeline/header"
	"github.com/weirswitch/weir/stages/disketch"
	"github.com/weirswitch/weir/stages/l3"
	"github.com/weirswitch/weir/stages/lds"
	"github.com/weirswitch/weir/stages/oblivious"
	stagepint "github.com/weirswitch/weir/stages/pint"
	"github.com/weirswitch/weir/telemetry/hash"
	"github.com/weirswitch/weir/telemetry/pint/plan"
	"github.com/weirswitch/weir/telemetry/sketch/univmon"
)

// Boundaries are packets for the values at which the programs decide otherwise: hashes of ids that are the highest which a
// sample, a row, a set, a layer, a hop takes, and one more; times at the edges of epochs, subepochs and intervals and half an
// interval from these; round trips and halves of them between packets at one port; the longest stay of a histogram; each
// TTL from which packets may have come; each level of UnivMon; queues whose use of a link is cut. No packet is found by luck: ids are
// computed from hashes, and so are payloads from ids.
func Boundaries(s *Setup) ([]Packet, error) {
	b, err := newBoundaries(s)
	if err != nil {
		return nil, err
	}
	return b.packets, nil
}

func newBoundaries(s *Setup) (*boundaries, error) {
	c, err := tables.Build(s.Switch, tables.Options{CPUPort: CPUPort, Now: begin})
	if err != nil {
		return nil, err
	}
	b := &boundaries{setup: s, plan: s.Plan, contents: c, now: begin, seen: map[string]int{}, ids: map[string]uint64{}}
	b.parse = b.member("ingress.derive.parse_config", map[hash.Family]string{hash.CRC: "crc_key", hash.XX: "xxhash_seed"}[s.Switch.Hash])
	for _, part := range []func(){b.samples, b.rows, b.digests, b.headers, b.intervals, b.utilisation, b.edges, b.stays, b.trailers, b.levels, b.queues} {
		part()
	}
	slices.SortStableFunc(b.packets, func(a, o Packet) int { return compare(uint64(a.Now), uint64(o.Now)) })
	return b, nil
}

type boundaries struct {
	setup    *Setup
	plan     *plan.Plan // of the digests that packets come with
	contents *tables.Contents
	parse    member
	now      int64
	packets  []Packet
	seen     map[string]int    // packets by what they are made for
	ids      map[string]uint64 // by the payloads of packets that are made for them
	sequence uint16
}

// add adds a packet that arrives at a port a moment after the one before.
func (b *boundaries) add(of string, port int, frame []byte) {
	b.now += 1_000_000
	b.at(of, port, b.now-20_000, b.now, frame)
}

func (b *boundaries) at(of string, port int, arrival, now int64, frame []byte) {
	b.seen[of]++
	b.packets = append(b.packets, Packet{Port: uint16(port), Arrival: arrival, Now: now, Data: b.addressed(port, frame)})
}

// addressed gives packets for a router its address at the port.
func (b *boundaries) addressed(port int, frame []byte) []byte {
	if c, ok := stageConfig[l3.Config](b.setup.Switch, "l3"); ok {
		if mac, err := net.ParseMAC(c.Interfaces[port].MAC); err == nil {
			copy(frame, mac)
		}
	}
	return frame
}

// parameters are those of a table's default action.
func (b *boundaries) parameters(table string) map[string]uint64 {
	all := map[string]uint64{}
	for _, d := range b.contents.Defaults {
		if d.Table == table {
			for _, p := range d.Action.Params {
				all[p.Name] = p.Value.Low
			}
		}
	}
	return all
}

// member is the hash whose key a table's default action has, under a name.
func (b *boundaries) member(table, name string) member {
	return member{b.setup.Switch.Hash, b.parameters(table)[name]}
}

// usual is a datagram that no other is equal to.
func (b *boundaries) usual() []byte {
	b.sequence++
	d := usual()
	d.id = b.sequence
	return frame(header.TypeIPv4, d.bytes())
}

// withID is an atomic datagram whose packet id is the given one: the first eight bytes of its payload make it so.
func (b *boundaries) withID(id uint64) []byte {
	d := atomic()
	d.payload = udpBytes(8)
	packet := d.bytes()
	l4 := packet[header.IPv4Len:]
	message := slices.Concat(packet[12:20], []byte{packet[9], 0}, packet[4:6], []byte{packet[6] & 0x1f, packet[7]}, packet[2:4], l4[:8], make([]byte, 8))
	copy(l4[8:], b.parse.last(id, message))
	b.ids[string(packet[header.IPv4Len:])] = id
	return frame(header.TypeIPv4, packet)
}

// samples come twice: when the threshold is the rank of one of them it comes again.
func (b *boundaries) samples() {
	c, ok := stageConfig[oblivious.Config](b.setup.Switch, "oblivious")
	if !ok {
		return
	}
	// All in one epoch, from an edge on.
	b.now = (b.now>>c.EpochBits + 1) << c.EpochBits
	n := (max(c.Size, lowerEvery) + lowerEvery - 1) / lowerEvery * lowerEvery
	step := int64(1) << c.EpochBits / int64(3*n)
	var frames [][]byte
	for range n {
		frames = append(frames, b.usual())
	}
	for range 2 {
		for _, f := range frames {
			b.now += step
			b.at("sample", 0, b.now-1000, b.now, slices.Clone(f))
		}
	}
}

// rows sample up to a limit: ids whose hashes are that, and one more.
func (b *boundaries) rows() {
	for _, side := range sides {
		c, ok := stageConfig[lds.Config](b.setup.Switch, side)
		if !ok {
			continue
		}
		shape, limits := b.parameters(b.control(side+".side.shape")), b.parameters(b.control(side+".side.rates"))
		control := b.control(side + ".side.keys")
		for row := range c.Sketch(0).Rows {
			k := b.member(control, fmt.Sprintf("of_packet_%d", row/2))
			most := limits[fmt.Sprintf("limit_%d", row)] / shape["flow_cells"]
			for _, value := range []uint64{most, most + 1} {
				if value > 1<<32-1 {
					continue
				}
				h := value<<32 | 0x12345678
				if row&1 == 1 {
					h = 0x12345678<<32 | value
				}
				for _, port := range []int{0, 1, 2} { // one of them leaves by a measured port
					b.add("row", port, b.withID(k.word(h)))
				}
			}
		}
	}
}

// control is the full name of a table, whose end is given.
func (b *boundaries) control(end string) string {
	for _, d := range b.contents.Defaults {
		if strings.HasSuffix(d.Table, end) {
			return d.Table
		}
	}
	return ""
}

// digests: the hashes by which the encoders choose, each of its plan's packets.
func (b *boundaries) digests() {
	if b.setup.Plan == nil {
		return
	}
	b.digestsOf(strings.TrimSuffix(b.control(".encoder.keys"), "keys"))
	if b.setup.Next != nil {
		defer func(p *plan.Plan) { b.plan = p }(b.plan)
		b.plan = b.setup.Next
		b.digestsOf(strings.TrimSuffix(b.control(".next_encoder.keys"), "keys"))
	}
}

func (b *boundaries) digestsOf(encoder string) {
	set, writer := b.member(encoder+"keys", "of_set"), b.member(encoder+"keys", "of_writer")
	const hosts, network = 4, 2 // h1, whose packets leave by h2 where ports are patched, and c1
	var layers []tables.Entry
	for _, e := range b.contents.Entries {
		switch e.Table {
		case encoder + "query_set", encoder + "layer":
			most, behind := uint64(1<<32-1), uint64(1)
			if e.Table == encoder+"layer" {
				most = 1<<64 - 1
				layers = append(layers, e)
				if b.setup.Switch.Hash != hash.CRC {
					behind = 8 // a single packet may be as it would be in the other layer
				}
			}
			values := []uint64{e.Keys[0].Value.Low, e.Keys[0].High.Low}
			if end := values[1]; end != most {
				for more := range behind {
					values = append(values, end+1+more)
				}
			}
			for _, value := range values {
				h := value<<32 | 0x89abcdef
				if e.Table == encoder+"layer" {
					if h = b.decided(value); b.setup.Switch.Hash == hash.CRC {
						h |= 0x123 << 32
					}
				}
				for _, port := range []int{hosts, network} {
					b.add("set", port, b.shimmed(port, 1, b.withID(set.word(h))))
				}
			}
		}
	}
	for _, e := range b.contents.Entries {
		hop := uint64(0)
		var want uint64 // of the hash, or of its halves the other way round
		switch e.Table {
		case encoder + "path_writes":
			hop, want = e.Keys[1].Value.Low, e.Action.Params[0].Value.Low
		case encoder + "sample":
			hop, want = e.Keys[0].Value.Low, e.Action.Params[0].Value.Low
		}
		if hop == 0 || hop > 3 {
			continue
		}
		port := network
		if hop == 1 {
			port = hosts
		}
		for more := range uint64(2) {
			if more == 1 && want == 1<<64-1 {
				continue
			}
			id, ok := b.idOf(e, encoder, set, writer, hop, want, more, layers)
			if ok {
				b.add("hop", port, b.shimmed(port, uint8(hop-1), b.withID(id)))
			}
		}
	}
}

// decided is a hash whose halves the other way round are a value by which packets are told apart. Of crc their upper
// half decides.
func (b *boundaries) decided(value uint64) uint64 {
	if b.setup.Switch.Hash == hash.CRC {
		return value >> 32
	}
	return bits.RotateLeft64(value, 32)
}

// idOf finds an id whose writer's hash has a half that is want, or one more, and whose layer is that of the entry.
func (b *boundaries) idOf(e tables.Entry, encoder string, set, writer member, hop, want, more uint64, layers []tables.Entry) (uint64, bool) {
	if e.Table == encoder+"sample" {
		return writer.word(b.decided(want+more), hop), true
	}
	for other := range uint64(200) {
		// As near as may be; the lower half of crc's does not decide.
		h := want - other
		if more == 1 {
			h = want + 1 + other
		}
		if b.setup.Switch.Hash == hash.CRC {
			h = (want>>32+more)<<32 + other*0x9e3779b9&(1<<32-1)
		}
		id := writer.word(h, hop)
		q := bits.RotateLeft64(set.hash(binary.LittleEndian.AppendUint64(nil, id)), 32)
		for _, l := range layers {
			if l.Action.Params[0].Value.Low == e.Keys[0].Value.Low && q >= l.Keys[0].Value.Low && q <= l.Keys[0].High.Low {
				return id, true
			}
		}
	}
	return 0, false
}

// shimmed puts a digest in front of a packet from another switch, where shims carry them; hop is that of the last one.
func (b *boundaries) shimmed(port int, hop uint8, frame []byte) []byte {
	c, ok := stageConfig[stagepint.Config](b.setup.Switch, "pint")
	if !ok || b.setup.Plan.Carrier == "ipid" || hop == 0 || slices.Contains(c.Edge, b.setup.Switch.Ports[port].Name) {
		return frame
	}
	return b.withShim(frame, hop, 0)
}

func (b *boundaries) withShim(frame []byte, hop, interval uint8) []byte {
	shim := []byte{0x88, 0xb5, 0x10 | interval<<3 | 1, hop, byte(b.plan.ID >> 8), byte(b.plan.ID), 0, 0}
	return slices.Insert(frame, 12, shim...)
}

// around are times next to one.
func around(t int64) []int64 { return []int64{t - 1, t, t + 1} }

// intervals: packets that arrive half an interval from the one of the clock, also behind the clock, as where they are
// replayed; and such whose shim gives either parity.
func (b *boundaries) intervals() {
	for _, side := range sides {
		c, ok := stageConfig[lds.Config](b.setup.Switch, side)
		if !ok {
			continue
		}
		span := int64(1) << c.IntervalBits
		b.now = (b.now/span + 2) * span
		for _, distance := range []int64{-span / 2, 0, span / 2, span, 3 * span / 2} {
			for _, arrival := range around(b.now + distance) {
				for port := range 3 {
					// The clock is at the beginning of the interval, or a little behind the arrival.
					b.at("interval", port, arrival, b.now+1000, b.usual())
					if b.setup.Plan != nil && b.setup.Plan.Carrier == "shim" {
						for interval := range uint8(2) {
							b.at("interval", port, arrival, b.now+1000, b.withShim(b.usual(), 1, interval))
						}
					}
				}
			}
		}
		for _, now := range []int64{b.now + span/2 - 1, b.now + span/2, b.now + span - 1, b.now + span} {
			for port := range 3 {
				b.at("interval", port, now-100, now, b.usual())
				if b.setup.Plan != nil && b.setup.Plan.Carrier == "shim" {
					for interval := range uint8(2) {
						b.at("interval", port, now, now, b.withShim(b.usual(), 1, interval))
					}
				}
			}
		}
		b.now += 2 * span
	}
}

// headers: TTLs at which a packet may have begun, and one more and less; datagrams that may not be split, with more fragments to
// come; and a long header of DCCP that is shorter than it says.
func (b *boundaries) headers() {
	dccp := make([]byte, 24)
	dccp[8] = 1 // the sequence number is a long one
	for port := range b.setup.Switch.Ports {
		for _, begin := range []uint8{32, 64, 128, 254} {
			for _, ttl := range []uint8{begin - 1, begin, begin + 1} {
				d := atomic()
				d.ttl = ttl
				b.add("ttl", port, b.shimmed(port, 1, frame(header.TypeIPv4, d.bytes())))
				b.add("ttl", port, b.shimmed(port, 1, frame(header.TypeIPv6, datagram6("2001:db8::7", "fd00::3", header.ProtoUDP, ttl, udpBytes(4)))))
			}
		}
		for _, fragment := range []uint16{0x4000, 0x6000, 0xc000, 0xe000} {
			d := atomic()
			d.fragment = fragment
			b.add("fragment", port, frame(header.TypeIPv4, d.bytes()))
		}
		for _, words := range []byte{3, 4} {
			dccp[4] = words
			d := usual()
			d.proto, d.payload = header.ProtoDCCP, slices.Clone(dccp)
			b.add("dccp", port, frame(header.TypeIPv4, d.bytes()))
			b.add("dccp", port, frame(header.TypeIPv6, usual6(header.ProtoDCCP, dccp)))
		}
	}
}

// utilisation: a round trip, half of one, and a nanosecond more and less, between two packets at each port.
func (b *boundaries) utilisation() {
	c, ok := stageConfig[stagepint.Config](b.setup.Switch, "pint")
	if !ok {
		return
	}
	t := int64(c.RoundTrip)
	for _, gap := range []int64{t / 2, t / 2, t/2 + 1, t/2 - 1, t / 2, t, t / 2, t + 1, t - 1, t / 2, 0, t / 2, 1, t / 2} {
		b.now += gap
		for port := range b.setup.Switch.Ports {
			b.at("utilisation", port, b.now-1000, b.now, b.usual())
			b.packets[len(b.packets)-1].Depth = uint16(gap % 251)
		}
	}
	for _, depth := range []uint16{1<<16 - 1, 1 << 15, 30_000, 1 << 14, 0} {
		b.now += t
		for port := range b.setup.Switch.Ports {
			b.waits("utilisation", port, depth)
		}
	}
}

// waits adds a long packet with as many others in the queue.
func (b *boundaries) waits(of string, port int, depth uint16) {
	d := usual()
	d.payload = udpBytes(mtu - header.IPv4Len - header.UDPLen - 100)
	b.at(of, port, b.now-1000, b.now, frame(header.TypeIPv4, d.bytes()))
	b.packets[len(b.packets)-1].Depth = depth
}

// queues are the last packets, so that the registers keep what the use of each link became: powers of two end at 2^60, which is
// 2^28 times what a link sends in a round trip. The slowest ones, of subepochs.toml, send a byte: at one more waits than that,
// at the other between half of it and all.
func (b *boundaries) queues() {
	c, ok := stageConfig[stagepint.Config](b.setup.Switch, "pint")
	if !ok {
		return
	}
	for range 2 { // each a round trip behind the one before at its port
		b.now += 2 * int64(c.RoundTrip)
		for port := range b.setup.Switch.Ports {
			b.waits("queue", port, []uint16{1<<16 - 1, 20_000}[port%2])
		}
	}
}

// edges of epochs and of the parts into which they may be divided.
func (b *boundaries) edges() {
	c, ok := stageConfig[disketch.Config](b.setup.Switch, "disketch")
	if !ok {
		return
	}
	epoch := int64(1) << c.EpochBits
	for range 2 {
		b.now = (b.now/epoch + 1) * epoch
		for part := range int64(8) {
			for _, now := range around(b.now + part*epoch/8) {
				for _, port := range []int{0, 4} {
					b.at("epoch", port, now-100, now, b.usual())
				}
			}
		}
		b.now += epoch - 1
	}
}

// levels are those of UnivMon: flows of each, in each subepoch that an epoch may have.
func (b *boundaries) levels() {
	c, ok := stageConfig[disketch.Config](b.setup.Switch, "disketch")
	if !ok {
		return
	}
	const parts = 16
	epoch := int64(1) << c.EpochBits
	for i := range c.Fragments {
		shape := c.FragmentConfig(i, b.setup.Switch.ID, b.setup.Switch.Hash)
		masks, byAddresses := c.Fragments[i].AddressMasks()
		if shape.NumLevels() == 1 || !byAddresses {
			continue
		}
		flows := make([]*datagram4, shape.NumLevels()+1) // the last one is of a level that the sketch has not got
		for n, found := uint32(0), 0; found < len(flows); n++ {
			src, dst := n*0x9e3779b9, n<<12|7<<28
			flow := b.setup.Switch.Hash.Uint64x5(disketch.AddressSeed, (uint64(src)&masks.Src4)<<32, 0, (uint64(dst)&masks.Dst4)<<32, 0, 4)
			level := univmon.LevelOf(b.setup.Switch.Hash, len(flows), shape.LevelSeed(), flow)
			if flows[level] != nil {
				continue
			}
			d := usual()
			d.src, d.dst = address4(src), address4(dst)
			flows[level] = &d
			found++
		}
		b.now = (b.now/epoch + 1) * epoch
		for part := range int64(parts) {
			for k, d := range flows {
				b.at("level", k%3, b.now+part*epoch/parts, b.now+part*epoch/parts+int64(k)*1000, frame(header.TypeIPv4, d.bytes()))
			}
		}
		b.now += epoch - 1
	}
}

func address4(n uint32) string {
	return netip.AddrFrom4([4]byte(binary.BigEndian.AppendUint32(nil, n))).String()
}

// stays are as long as histograms count, and longer.
func (b *boundaries) stays() {
	for _, bits := range []int{39, 40, 41} {
		for _, stay := range around(1 << bits) {
			for port := range b.setup.Switch.Ports {
				b.now += 1000
				b.at("stay", port, b.now-stay, b.now, b.usual())
			}
		}
	}
}

// trailers are bytes behind neighbour discovery that a router forwards, up to the MTU of links, and one more.
func (b *boundaries) trailers() {
	c, ok := stageConfig[l3.Config](b.setup.Switch, "l3")
	if !ok {
		return
	}
	for _, i := range c.Interfaces {
		mtu := i.MTU
		if mtu == 0 {
			mtu = 1500
		}
		for n := range 8 { // flows, of which each link gets some
			for _, length := range around(int64(mtu + header.EthernetLen)) {
				f := frame(header.TypeIPv6, discovery("2001:db8::7", fmt.Sprintf("2001:db9::%d", n+1), 135))
				b.add("trailer", 0, append(f, make([]byte, int(length)-len(f))...))
			}
		}
	}
}

// TestBoundaries: each setup has packets for all of them, whose ids are those that they are made for, and the same each time.
func TestBoundaries(t *testing.T) {
	setups, err := Setups(setupDir)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range setups {
		s, err := LoadSetup(setupDir, name)
		if err != nil {
			t.Fatal(err)
		}
		b, err := newBoundaries(s)
		if err != nil {
			t.Fatal(err)
		}
		for _, of := range []string{"sample", "row", "set", "hop", "interval", "utilisation", "epoch", "ttl", "fragment", "dccp", "queue"} {
			if b.seen[of] == 0 {
				t.Errorf("%s has no packet for %s", name, of)
			}
		}
		if name == "keys" && b.seen["level"] == 0 {
			t.Error("the setup with UnivMon has no packet for a level")
		}
		again, err := Boundaries(s)
		if err != nil || !slices.EqualFunc(b.packets, again, func(a, b Packet) bool {
			return a.Port == b.Port && a.Arrival == b.Arrival && a.Now == b.Now && a.Depth == b.Depth && slices.Equal(a.Data, b.Data)
		}) {
			t.Errorf("%s: the packets are others at the second time (%v)", name, err)
		}
		g, err := newGoSwitch(s.Switch, nothing{})
		if err != nil {
			t.Fatal(err)
		}
		made := 0
		for _, p := range b.packets {
			at := len(p.Data) - header.UDPLen - 8
			want, ok := b.ids[string(p.Data[max(at, 0):])]
			if _, err := g.step(p); err != nil {
				t.Fatal(err)
			}
			if made++; ok && g.seen.id != want {
				t.Fatalf("%s: a packet has the id %x, and is made for %x", name, g.seen.id, want)
			}
		}
		if err := g.close(); err != nil {
			t.Error(err)
		}
		t.Logf("%s: %d packets: %v", name, len(b.packets), b.seen)
	}
}
