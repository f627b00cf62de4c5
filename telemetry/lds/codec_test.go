package lds

import (
	"bytes"
	"encoding/hex"
	"errors"
	"math"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"

	"github.com/weirswitch/weir/telemetry/hash"
)

// filled is a point with some packets.
func filled(t testing.TB, c Config, n int) *Point {
	p := newPoint(t, c)
	p.Begin(-3)
	r := rand.New(rand.NewPCG(6, c.Seed))
	for range n {
		p.AddWeighted(r.Uint64N(9), r.Uint64(), p.begin()+r.Int64N(2*c.IntervalNs), length(r), weight(r))
	}
	p.Mark(Partial)
	return p
}

func TestCodecOfClass(t *testing.T) {
	for _, c := range []Class{
		{}, {Name: "blue", From: netip.MustParsePrefix("10.1.1.0/24"), To: netip.MustParsePrefix("0.0.0.0/0")},
		{From: netip.MustParsePrefix("2001:db8::/32"), To: netip.MustParsePrefix("2001:db8::1/128")},
		{Name: "red", From: netip.MustParsePrefix("0.0.0.0/0"), To: netip.MustParsePrefix("192.0.2.1/32"), VNI: MaxVNI},
		{From: netip.MustParsePrefix("2001::/16"), To: netip.MustParsePrefix("2001:db8::/32"), VNI: 1, Edge: 1<<32 - 1},
	} {
		p := filled(t, shapes()[1], 20)
		p.SetClass(c)
		b := encode(t, p)
		q, err := Decode(b, hash.XX)
		if err != nil || q.Class() != c || q.at(3) != p.at(3) {
			t.Errorf("%v is read as %v, %v", &c, q, err)
		}
		if s, err := Check(b, hash.XX); err != nil || s.Class != c {
			t.Errorf("%v is checked as %+v, %v", &c, s, err)
		}
		other := filled(t, shapes()[1], 20)
		other.SetClass(Class{From: netip.MustParsePrefix("10.1.0.0/16"), To: netip.MustParsePrefix("0.0.0.0/0")})
		if _, err := Subtract(p, other, AnyDelay()); err == nil {
			t.Error("points of different classes are subtracted")
		}
		if !c.IsZero() {
			b[88+1+len(c.Name)] |= 0x80
			if _, err := Decode(b, hash.XX); err == nil {
				t.Errorf("%v with wrong bits is read", &c)
			}
		}
	}
}

func encode(t testing.TB, p *Point) []byte {
	b, err := p.AppendBinary([]byte("before"))
	if err != nil || !bytes.HasPrefix(b, []byte("before")) {
		t.Fatal("AppendBinary does not append", err)
	}
	return b[len("before"):]
}

func TestCodec(t *testing.T) {
	for _, c := range shapes() {
		for _, n := range []int{0, 1, 300} {
			p := filled(t, c, n)
			q, err := Decode(encode(t, p), p.Config().Hash)
			if err != nil {
				t.Fatal(err)
			}
			if !q.config.Equal(p.config) || q.number != p.number || q.begin() != p.begin() || q.flags != p.flags || q.packets != p.packets || q.outside != p.outside {
				t.Errorf("%+v: read as %+v", p.config, q.config)
			}
			// A decoded point goes on like the one it comes from.
			p.Add(1, 2, p.begin(), 60)
			q.Add(1, 2, p.begin(), 60)
			for i := range p.cells {
				if p.at(i) != q.at(i) {
					t.Fatalf("cell %d: %+v is read as %+v", i, p.at(i), q.at(i))
				}
			}
		}
	}
}

// golden is a point of two rows of three cells, with one packet.
const golden = "02010200" + "02000000" + "03000000" + "0f000000" +
	"00ca9a3b00000000" + "0900000000000000" + "fdffffffffffffff" + "0100000000000000" + "0000000000000000" +
	"000000000000f03f" + "000000000000f03f" + "ff"

func TestGoldenHeader(t *testing.T) {
	p := newPoint(t, Config{Rows: 2, Columns: 3, Virtual: 2, IntervalNs: 1e9, Seed: 9})
	p.Begin(-3)
	p.Mark(Partial)
	p.Add(1, 2, p.begin()+1000, 60)
	b := encode(t, p)
	want, _ := hex.DecodeString(golden)
	if !bytes.HasPrefix(b, want) || len(b) != len(want)+1+4+15+1 {
		t.Errorf("got  %x\nwant %x, a bitmap and 15 bytes of two equal cells", b, want)
	}
}

// TestWideVersion: records of version 1, with cells of 32 bytes and digests of 64 bits, are read, and compare with those of today.
func TestWideVersion(t *testing.T) {
	for _, c := range shapes() {
		p := newPoint(t, c)
		p.Begin(-3)
		r := rand.New(rand.NewPCG(6, c.Seed))
		for range 100 {
			p.Add(r.Uint64N(9), r.Uint64(), p.begin()+r.Int64N(c.IntervalNs), 60)
		}
		b := encodeWide(p, r)
		q, err := Decode(b, c.Hash)
		if err != nil {
			t.Fatal(err)
		}
		if s, err := Check(b, c.Hash); err != nil || s.Packets != p.packets {
			t.Errorf("%+v: %+v, %v", c, s, err)
		}
		d, err := Subtract(p, q, AnyDelay())
		if err != nil {
			t.Fatal(err)
		}
		if mean, ok := d.MeanNs(); !ok || mean != 0 || d.Refused() != 0 {
			t.Errorf("%+v: a point and itself of version 1 differ by %g ns, %d cells are refused", c, mean, d.Refused())
		}
	}
}

// encodeWide is the form of version 1, with anything in the upper halves of digests.
func encodeWide(p *Point, r *rand.Rand) []byte {
	b := []byte{wideVersion, byte(p.flags), byte(p.config.Rows), 0}
	b = order.AppendUint32(b, uint32(p.config.Virtual))
	b = order.AppendUint32(b, uint32(p.config.Columns))
	b = order.AppendUint32(b, 0)
	for _, w := range []uint64{uint64(p.config.IntervalNs), p.config.Seed, uint64(p.number), p.packets, p.outside} {
		b = order.AppendUint64(b, w)
	}
	for _, rate := range p.config.rates() {
		b = order.AppendUint64(b, math.Float64bits(rate))
	}
	bitmap := len(b)
	b = append(b, make([]byte, (len(p.cells)+7)/8)...)
	for i, cell := range p.wide() {
		if cell == (Cell{}) {
			continue
		}
		b[bitmap+i/8] |= 1 << (i % 8)
		b = order.AppendUint64(b, uint64(cell.Sum))
		b = order.AppendUint64(b, cell.Count)
		b = order.AppendUint64(b, uint64(cell.Digest)|r.Uint64()<<32)
		b = order.AppendUint64(b, cell.Bytes)
	}
	return b
}

func TestDecodeRefuses(t *testing.T) {
	good := encode(t, filled(t, shapes()[1], 20))
	for name, change := range map[string]func([]byte) []byte{
		"nothing":          func(b []byte) []byte { return nil },
		"half a header":    func(b []byte) []byte { return b[:20] },
		"unknown flags":    func(b []byte) []byte { b[1] = 0x80; return b },
		"reserved":         func(b []byte) []byte { b[13] = 1; return b },
		"255 rows":         func(b []byte) []byte { b[2] = 255; return b },
		"more rows":        func(b []byte) []byte { b[2]++; return b },
		"huge columns":     func(b []byte) []byte { order.PutUint32(b[8:], math.MaxUint32); return b },
		"many columns":     func(b []byte) []byte { order.PutUint32(b[8:], MaxCells/4); return b },
		"huge virtual":     func(b []byte) []byte { order.PutUint32(b[4:], math.MaxUint32); return b },
		"negative length":  func(b []byte) []byte { order.PutUint64(b[16:], math.MaxUint64); return b },
		"interval at end":  func(b []byte) []byte { order.PutUint64(b[32:], math.MaxInt64); return b },
		"rate NaN":         func(b []byte) []byte { order.PutUint64(b[56:], math.MaxUint64); return b },
		"half the cells":   func(b []byte) []byte { return b[:len(b)-(len(b)-103)/2] },
		"a packing of 2":   func(b []byte) []byte { b[3] = 2; return b },
		"a long length":    func(b []byte) []byte { order.PutUint32(b[12:], math.MaxUint32); return b },
		"a longer length":  func(b []byte) []byte { b[12]++; return b },
		"a cell unnamed":   func(b []byte) []byte { b[56+33] &= b[56+33] - 1; return b },
		"another named":    func(b []byte) []byte { b[56+33] ^= b[56+33] + 1; return b },
		"a byte too many":  func(b []byte) []byte { return append(b, 0) },
		"bits at the edge": func(b []byte) []byte { b[56+33+8] |= 0x80; return b },
	} {
		bad := change(bytes.Clone(good))
		if _, err := Decode(bad, hash.XX); err == nil {
			t.Errorf("%s: no error", name)
		}
		if _, err := Check(bad, hash.XX); err == nil {
			t.Errorf("%s: Check finds no error", name)
		}
	}
	future := bytes.Clone(good)
	future[0] = keptVersion + namesFlows + 1
	if _, err := Decode(future, hash.XX); !errors.Is(err, ErrVersion) {
		t.Errorf("version %d: %v", future[0], err)
	}
	cut := filled(t, shapes()[1], 20)
	cut.Keep(20)
	kept := encode(t, cut)
	if p, err := Decode(kept, hash.XX); err != nil || p.Kept() != 20 {
		t.Errorf("20 kept cells: %v", err)
	}
	for _, n := range []uint32{0, 1, 19, 25, 4 * 17, math.MaxUint32} {
		bad := bytes.Clone(kept)
		order.PutUint32(bad[headerBytes:], n)
		if _, err := Decode(bad, hash.XX); err == nil {
			t.Errorf("%d kept cells: no error", n)
		}
	}
	wide := encodeWide(filled(t, shapes()[1], 20), rand.New(rand.NewPCG(1, 1)))
	for name, change := range map[string]func([]byte) []byte{
		"reserved":        func(b []byte) []byte { b[13] = 1; return b },
		"a cell too few":  func(b []byte) []byte { return b[:len(b)-wideBytes] },
		"a cell too many": func(b []byte) []byte { return append(b, make([]byte, wideBytes)...) },
		"a byte too many": func(b []byte) []byte { return append(b, 0) },
		"an empty cell":   func(b []byte) []byte { clear(b[len(b)-wideBytes:]); return b },
		"2^63 packets":    func(b []byte) []byte { b[len(b)-wideBytes+15] |= 0x80; return b },
	} {
		if _, err := Decode(change(bytes.Clone(wide)), hash.XX); err == nil {
			t.Errorf("version 1, %s: no error", name)
		}
	}
	// Refused before the cells are made: 128 MB would take longer, and show.
	many := bytes.Clone(good)
	order.PutUint32(many[8:], MaxCells/4)
	if n := testing.AllocsPerRun(10, func() { Decode(many, hash.XX) }); n > 20 {
		t.Errorf("%v allocations for a refusal", n)
	}
}

// FuzzDecode: what is decoded is written and read again as it is, and no input makes more memory
// than its length allows.
func FuzzDecode(f *testing.F) {
	for _, c := range shapes() {
		f.Add(encode(f, filled(f, c, 10)))
		f.Add(encode(f, filled(f, c, 200)))
		cut := filled(f, c, 200)
		cut.Keep(c.Rows * c.Columns / 3)
		f.Add(encode(f, cut))
		if c.folds() {
			f.Add(encode(f, filled(f, c, 200).foldTo(1, 1)))
		}
		wide := encodeWide(filled(f, c, 10), rand.New(rand.NewPCG(1, 1)))
		f.Add(wide)
		full := bytes.Clone(wide)
		order.PutUint64(full[len(full)-wideBytes+8:], math.MaxUint64)
		f.Add(full)
	}
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := Decode(b, hash.XX)
		summary, checked := Check(b, hash.XX)
		if (err == nil) != (checked == nil) {
			t.Fatalf("Decode says %v, Check %v", err, checked)
		}
		if err != nil {
			return
		}
		if !summary.Config.Equal(p.counted) || summary.Interval != p.number || summary.Packets != p.packets || summary.Kept != p.kept {
			t.Fatalf("Check reads %+v, Decode %+v of interval %d, %d packets", summary, p.config, p.number, p.packets)
		}
		if len(p.cells) > maxUnkept*8*len(b) {
			t.Fatalf("%d cells from %d bytes", len(p.cells), len(b))
		}
		q, err := Decode(encode(t, p), hash.XX)
		if err != nil {
			t.Fatal(err)
		}
		if q.number != p.number || q.packets != p.packets || q.outside != p.outside || q.flags != p.flags || !slices.Equal(p.wide(), q.wide()) || !slices.Equal(p.spill.over, q.spill.over) {
			t.Fatal("a point is read otherwise than it was written")
		}
		if _, err := Subtract(p, p.Clone(), AnyDelay()); err != nil {
			t.Fatal(err)
		}
	})
}
