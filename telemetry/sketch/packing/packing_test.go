package packing

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"math/rand/v2"
	"testing"
)

// texts are of bytes that repeat and of bytes that do not.
func texts(r *rand.Rand) (all [][]byte) {
	for _, n := range []int{0, 1, leastBytes, 1000, 200_000} {
		random, few, zero := make([]byte, n), make([]byte, n), make([]byte, n)
		for i := range random {
			random[i], few[i] = byte(r.Uint32()), byte(r.IntN(3))
		}
		all = append(all, random, few, zero)
	}
	return all
}

func TestPacking(t *testing.T) {
	for name, add := range map[string]func(dst, text []byte) []byte{"Append": Append, "AppendCells": AppendCells} {
		t.Run(name, func(t *testing.T) { testPacking(t, add) })
	}
}

func testPacking(t *testing.T, add func(dst, text []byte) []byte) {
	r := rand.New(rand.NewPCG(1, 25))
	for _, text := range texts(r) {
		b := add([]byte("front"), text)[len("front"):]
		got, rest, err := Cut(append(bytes.Clone(b), "behind"...))
		if err != nil || !bytes.Equal(got, text) || string(rest) != "behind" {
			t.Fatalf("%d bytes: %v, %d bytes with %q behind", len(text), err, len(got), rest)
		}
		if len(b) > len(text)+2*binary.MaxVarintLen32 {
			t.Errorf("%d bytes take %d", len(text), len(b))
		}
		for range 30 {
			if _, _, err := Cut(b[:r.IntN(len(b))]); !errors.Is(err, ErrPacked) {
				t.Fatalf("cut short: %v", err)
			}
		}
	}
	few := texts(r)[13]
	if b := add(nil, few); len(b) > len(few)/3 {
		t.Errorf("%d bytes of three values take %d", len(few), len(b))
	}
}

// TestCellsTakeTheirEntropy: of bytes that do not repeat, and of which most are the same, AppendCells takes what they tell, in less than a bit for each.
func TestCellsTakeTheirEntropy(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 25))
	cells := make([]byte, 32<<10)
	var count [256]float64
	for i := range cells {
		cells[i] = byte(r.ExpFloat64() * 0.6)
		count[cells[i]]++
	}
	want := 0.0
	for _, n := range count {
		if n > 0 {
			want -= n / 8 * math.Log2(n/float64(len(cells)))
		}
	}
	b := AppendCells(nil, cells)
	if float64(len(b)) > 1.01*want+50 {
		t.Errorf("%d bytes, of an entropy of %.0f", len(b), want)
	}
	if whole := Append(nil, cells); len(b) > len(whole)*9/10 {
		t.Errorf("%d bytes, by zstd %d", len(b), len(whole))
	}
}

// TestBombs: a short form cannot claim a long text, nor one of another length than it has.
func TestBombs(t *testing.T) {
	for form, b := range map[byte][]byte{compressed: encoder().EncodeAll(make([]byte, 8<<20), nil), coded: code(append(make([]byte, 8<<20), 1))} {
		if _, _, err := Cut(appendForm(nil, form, 8<<20, b)); !errors.Is(err, ErrPacked) {
			t.Errorf("%d bytes that claim 8 MiB: %v", len(b), err)
		}
	}
	text := append(make([]byte, 2000), "something else"...)
	for _, length := range []int{0, 1, len(text) - 1, len(text) + 1} {
		if _, _, err := Cut(appendForm(nil, coded, length, code(text))); !errors.Is(err, ErrPacked) {
			t.Errorf("%d bytes that are %d: %v", length, len(text), err)
		}
	}
}

func TestBits(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 25))
	for range 200 {
		var w Bits
		var values []uint64
		var widths []int
		for range r.IntN(100) {
			n := r.IntN(58)
			v := r.Uint64() & (1<<n - 1)
			values, widths = append(values, v), append(widths, n)
			w.Add(v, n)
		}
		b := w.Bytes()
		read := ReadBits(b)
		for i, n := range widths {
			if v := read.Take(n); v != values[i] {
				t.Fatalf("number %d of %d bits is %x, not %x", i, n, v, values[i])
			}
		}
		if !read.Whole() {
			t.Fatalf("%d bytes are not all read", len(b))
		}
		if read.Take(9); read.Whole() {
			t.Fatal("more was read than there is")
		}
		if len(b) > 0 {
			if ReadBits(append(b, 0)).Whole() {
				t.Fatal("a byte is left")
			}
		}
	}
}

func FuzzCut(f *testing.F) {
	for _, text := range texts(rand.New(rand.NewPCG(3, 25)))[:9] {
		f.Add(Append(nil, text))
		f.Add(AppendCells(nil, text))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		text, rest, err := Cut(b)
		if err != nil {
			if !errors.Is(err, ErrPacked) {
				t.Fatal(err)
			}
			return
		}
		if len(text) > mostLength(len(b)) || len(rest) > len(b) {
			t.Fatalf("%d bytes became %d, with %d behind", len(b), len(text), len(rest))
		}
	})
}

// BenchmarkCells: as many cells as a fragment of 128 KB has, of which two thirds are 0.
func BenchmarkCells(b *testing.B) {
	r := rand.New(rand.NewPCG(4, 25))
	cells := make([]byte, 32<<10)
	for i := range cells {
		cells[i] = byte(r.ExpFloat64() * 0.9)
	}
	for _, form := range []struct {
		name string
		add  func(dst, text []byte) []byte
	}{{"zstd", Append}, {"fse", AppendCells}} {
		packed := form.add(nil, cells)
		b.Run(form.name+"/append", func(b *testing.B) {
			for b.Loop() {
				packed = form.add(packed[:0], cells)
			}
			b.ReportMetric(float64(len(packed)), "bytes")
		})
		b.Run(form.name+"/cut", func(b *testing.B) {
			for b.Loop() {
				if _, _, err := Cut(packed); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
