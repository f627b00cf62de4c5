package lds

import (
	"bytes"
	"encoding/hex"
	"errors"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/weirswitch/weir/telemetry/hash"
)

// filled is a point with some packets.
func filled(t testing.TB, c Config, n int) *Point {
	p := newPoint(t, c)
	p.Begin(-3)
	r := rand.New(rand.NewPCG(6, c.Seed))
	for range n {
		p.AddWeighted(r.Uint64N(9), r.Uint64(), p.start+r.Int64N(2*c.IntervalNs), r.Uint32(), 1+r.Uint32N(9))
	}
	p.Mark(Partial)
	return p
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
			if !q.config.Equal(p.config) || q.number != p.number || q.start != p.start || q.flags != p.flags || q.packets != p.packets || q.outside != p.outside {
				t.Errorf("%+v: read as %+v", p.config, q.config)
			}
			// A decoded point goes on like the one it comes from.
			p.Add(1, 2, p.start, 60)
			q.Add(1, 2, p.start, 60)
			for i := range p.cells {
				if p.cells[i] != q.cells[i] {
					t.Fatalf("cell %d: %+v is read as %+v", i, p.cells[i], q.cells[i])
				}
			}
		}
	}
}

// golden is a point of two rows of three cells, with one packet.
const golden = "01010200" + "02000000" + "03000000" + "00000000" +
	"00ca9a3b00000000" + "0900000000000000" + "fdffffffffffffff" + "0100000000000000" + "0000000000000000" +
	"000000000000f03f" + "000000000000f03f"

func TestGoldenHeader(t *testing.T) {
	p := newPoint(t, Config{Rows: 2, Columns: 3, Virtual: 2, IntervalNs: 1e9, Seed: 9})
	p.Begin(-3)
	p.Mark(Partial)
	p.Add(1, 2, p.start+1000, 60)
	b := encode(t, p)
	want, _ := hex.DecodeString(golden)
	if !bytes.HasPrefix(b, want) || len(b) != len(want)+1+2*32 {
		t.Errorf("got  %x\nwant %x and a bitmap and two cells", b, want)
	}
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
		"a cell too few":   func(b []byte) []byte { return b[:len(b)-cellBytes] },
		"a cell too many":  func(b []byte) []byte { return append(b, make([]byte, cellBytes)...) },
		"a byte too many":  func(b []byte) []byte { return append(b, 0) },
		"an empty cell":    func(b []byte) []byte { clear(b[len(b)-cellBytes:]); return b },
		"bits at the edge": func(b []byte) []byte { b[56+32+8] |= 0x80; return b },
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
	future[0] = 2
	if _, err := Decode(future, hash.XX); !errors.Is(err, ErrVersion) {
		t.Errorf("version 2: %v", err)
	}
	// Refused before the cells are made: 128 MB would take longer, and show.
	many := bytes.Clone(good)
	order.PutUint32(many[8:], MaxCells/4)
	if n := testing.AllocsPerRun(10, func() { Decode(many, hash.XX) }); n > 20 {
		t.Errorf("%v allocations for a refusal", n)
	}
}

// FuzzDecode: what is decoded has one form only, and no input makes more memory
// than its length allows.
func FuzzDecode(f *testing.F) {
	for _, c := range shapes() {
		f.Add(encode(f, filled(f, c, 10)))
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
		if !summary.Config.Equal(p.config) || summary.Interval != p.number || summary.Packets != p.packets {
			t.Fatalf("Check reads %+v, Decode %+v of interval %d, %d packets", summary, p.config, p.number, p.packets)
		}
		if len(p.cells) > 8*len(b) {
			t.Fatalf("%d cells from %d bytes", len(p.cells), len(b))
		}
		if again := encode(t, p); !bytes.Equal(again, b) {
			t.Fatalf("%x\nis written as\n%x", b, again)
		}
		if _, err := Subtract(p, p.Clone(), AnyDelay()); err != nil {
			t.Fatal(err)
		}
	})
}
