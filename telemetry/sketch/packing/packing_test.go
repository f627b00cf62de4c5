package packing

import (
	"bytes"
	"encoding/binary"
	"errors"
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
	r := rand.New(rand.NewPCG(1, 25))
	for _, text := range texts(r) {
		b := Append([]byte("front"), text)[len("front"):]
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
	if b := Append(nil, few); len(b) > len(few)/3 {
		t.Errorf("%d bytes of three values take %d", len(few), len(b))
	}
	// A short form cannot claim a long text.
	bomb := appendForm(nil, compressed, 8<<20, encoder().EncodeAll(make([]byte, 8<<20), nil))
	if _, _, err := Cut(bomb); !errors.Is(err, ErrPacked) {
		t.Errorf("%d bytes that claim 8 MiB: %v", len(bomb), err)
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
