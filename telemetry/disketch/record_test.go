package disketch

import (
	"encoding/binary"
	"errors"
	"flag"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/weirswitch/weir/telemetry/hash"
	"github.com/weirswitch/weir/telemetry/sketch/packing"
)

var update = flag.Bool("update", false, "write the golden files anew")

func someRecord(kind Kind, r *rand.Rand) *Record {
	f, err := NewFragment(Config{ID: ID{r.Uint64(), uint16(r.IntN(9))}, Kind: kind, Unit: Unit(r.IntN(2)), Memory: 64 + r.IntN(500), Epochs: 25, Seed: r.Uint64(), Hash: hash.Family(r.IntN(3)), SingleHop: r.IntN(2) == 0, Candidates: 8 * r.IntN(2)})
	if err != nil {
		panic(err)
	}
	c, _ := f.NewCounter()
	s := f.Begin(r.Uint64N(1 << 37))
	if s.Log = uint8(r.IntN(5)); !kind.Flows() {
		s.Log = 0
	}
	c.Begin(s, r.Uint64N(s.N()))
	for _, flow := range flowsOf(r.IntN(90)) {
		c.Add(flow, r.Int64N(5000), false)
	}
	packets := make([]uint64, r.IntN(90))
	for i := range packets {
		packets[i] = r.Uint64N(40)
	}
	feed(c, r, packets)
	return c.Record()
}

// oldForm is the binary form of versions 2 and 3, with nothing packed.
func oldForm(r *Record) []byte {
	flags := byte(0)
	if r.SingleHop {
		flags |= flagSingleHop
	}
	if r.Partial {
		flags |= flagPartial
	}
	version := byte(recordVersionSquares - 1)
	if r.Squares != nil {
		version = recordVersionSquares
	}
	b := []byte{version, byte(r.Kind()), byte(r.Unit), flags, byte(r.Epochs), r.Log}
	b = binary.LittleEndian.AppendUint64(b, r.Seed)
	for _, v := range []uint64{r.Fragment.Switch, uint64(r.Fragment.Sketch), r.Epoch, r.Subepoch, r.Packets, r.Value, r.Seen, uint64(r.Room)} {
		b = binary.AppendUvarint(b, v)
	}
	b = appendCandidates(b, r.Candidates)
	if r.Squares != nil {
		b = append(b, byte(len(r.Squares)))
		for _, x := range r.Squares {
			b = binary.LittleEndian.AppendUint64(b, math.Float64bits(x))
		}
	}
	b, _ = r.rows.appendBinary(b)
	return b
}

// coarseForm is the binary form of version 5 of a record of version 6.
func coarseForm(t *testing.T, b []byte) []byte {
	t.Helper()
	old := append([]byte{recordVersionCoarse}, b[1:fixedBytes]...)
	old = append(old, byte(binary.LittleEndian.Uint16(b[fixedBytes:])/coarseRatio), b[fixedBytes+2])
	at := uvarints(b, fixedBytes+roundedBytes, 7)
	keys, rest, err := packing.Cut(b[at:])
	if err != nil {
		t.Fatal(err)
	}
	cells, _, err := packing.Cut(rest)
	if err != nil {
		t.Fatal(err)
	}
	return packing.Append(packing.Append(append(old, b[fixedBytes+roundedBytes:at]...), keys), cells)
}

// uvarints is where so many of them end that begin at a place in b.
func uvarints(b []byte, at, n int) int {
	for range n {
		_, size := binary.Uvarint(b[at:])
		at += size
	}
	return at
}

// TestGolden: the form does not change unnoticed, and records of older versions say the same.
func TestGolden(t *testing.T) {
	f, err := NewFragment(Config{ID: ID{7, 1}, Kind: CountSketch, Memory: 400, Epochs: 25, Seed: 3, Candidates: 8})
	if err != nil {
		t.Fatal(err)
	}
	c, err := f.NewCounter()
	if err != nil {
		t.Fatal(err)
	}
	c.Begin(f.Begin(9), 0)
	for i := range uint64(200) {
		c.AddBatch([]uint64{i % 60}, []int64{1}, false)
		for _, a := range c.Admitted() {
			*a.Key = Key{Version: 4, Proto: 6, SrcPort: uint16(i % 60), DstPort: 443}
		}
	}
	r := c.Record()
	r.Squares, r.Flows = []float64{5, 3}, 60
	form, _ := r.AppendBinary(nil)
	plain := r.Clone()
	plain.Squares = nil
	rounded := r.Clone()
	rounded.Rounding = Rounding{16 * coarseRatio, 6, 0}
	coarse, _ := rounded.AppendBinary(nil)
	finer := rounded.Clone()
	finer.Rounding = Rounding{1, 0, 2}
	fine, _ := finer.AppendBinary(nil)
	for name, b := range map[string][]byte{"record-v2.bin": oldForm(plain), "record-v3.bin": oldForm(r), "record-v4.bin": form, "record-v5.bin": coarseForm(t, coarse), "record-v6.bin": fine} {
		file := filepath.Join("testdata", name)
		if *update {
			if err := os.WriteFile(file, b, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(b, want) {
			t.Errorf("%d bytes differ from the %d of %s", len(b), len(want), file)
		}
		var got Record
		if err := got.UnmarshalBinary(want); err != nil || got.Value != r.Value || !slices.Equal(got.Candidates, r.Candidates) || got.Error() != r.Error() || !slices.Equal(got.Cells(0), r.Cells(0)) && got.Rounding == (Rounding{}) {
			t.Errorf("%s: %v: %+v", name, err, got)
		}
		roundings := map[string]Rounding{"record-v5.bin": rounded.Rounding, "record-v6.bin": finer.Rounding}
		if got.Rounding != roundings[name] {
			t.Errorf("%s has cells rounded by %v", name, got.Rounding)
		}
		if has := got.Squares != nil; has != (name != "record-v2.bin") {
			t.Errorf("%s has second moments: %v", name, has)
		}
		if name >= "record-v4.bin" && got.Flows != r.Flows {
			t.Errorf("%g flows, want %g", got.Flows, r.Flows)
		}
	}
}

func TestRecordRoundTrip(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 4))
	for range 200 {
		a := someRecord(Kind(1+r.IntN(int(HyperLogLog))), r)
		form, _ := a.AppendBinary([]byte("before"))
		form = form[len("before"):]
		var b Record
		if err := b.UnmarshalBinary(form); err != nil {
			t.Fatal(err)
		}
		b.Use(a.Hash) // as the envelope tells
		again, _ := b.AppendBinary(nil)
		if !slices.Equal(form, again) || !slices.Equal(a.Candidates, b.Candidates) || a.Room != b.Room || a.Schedule != b.Schedule || a.Fragment != b.Fragment || a.Error() != b.Error() ||
			a.Subepoch != b.Subepoch || a.Packets != b.Packets || a.Value != b.Value || a.Seen != b.Seen || a.Unit != b.Unit || a.Epochs != b.Epochs {
			t.Fatalf("%+v came back as %+v", a, b)
		}
		for _, flow := range flowsOf(5) {
			if a.Estimate(flow) != b.Estimate(flow) {
				t.Fatal("estimates differ")
			}
		}
		// Cut anywhere, it is refused and changes nothing.
		before := b
		if err := b.UnmarshalBinary(form[:r.IntN(len(form))]); !errors.Is(err, ErrFormat) || b.Schedule != before.Schedule || b.rows != before.rows {
			t.Fatalf("cut short: %v", err)
		}
	}
}

// TestRecordAddsUp: a record whose cells are not what it says was added to them is
// refused, whatever is wrong.
func TestRecordAddsUp(t *testing.T) {
	r := rand.New(rand.NewPCG(8, 8))
	for kind := CountSketch; kind <= UnivMon; kind++ {
		for range 50 {
			a := someRecord(kind, r)
			for name, spoil := range map[string]func(*Record){
				"value": func(a *Record) { a.Value++ },
				"cell":  func(a *Record) { a.rows.cells(0)[0]++ },
				"cells": func(a *Record) { a.rows.cells(0)[0] += 2*int32(a.Value) + 2 }, // even
				"saturated": func(a *Record) {
					a.rows.add(1, math.MaxInt32)
					a.rows.add(1, math.MaxInt32)
					a.Value += 2 * math.MaxInt32
				},
			} {
				b, whole := a.Clone(), Record{}
				spoil(b)
				form, _ := b.AppendBinary(nil)
				err := whole.UnmarshalBinary(form)
				if good := name == "saturated"; good != (err == nil) || err != nil && !errors.Is(err, ErrFormat) {
					t.Fatalf("%v with another %s: %v", kind, name, err)
				}
			}
		}
	}
}

// TestNonlinearAddsUp: so is one of the other kinds whose cells cannot be what is left of that.
func TestNonlinearAddsUp(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 9))
	for kind := Tower; kind.known(); kind++ {
		for range 50 {
			a := someRecord(kind, r)
			for name, spoil := range map[string]func(*Record){
				"value": func(a *Record) { a.Value++ },
				"emptied": func(a *Record) {
					a.rows.add(1, 1)
					a.Value = 0
				},
				"divided": func(a *Record) { a.Log = 1 },
			} {
				if name == "divided" && kind.Flows() {
					continue
				}
				b, whole := a.Clone(), Record{}
				spoil(b)
				form, _ := b.AppendBinary(nil)
				if err := whole.UnmarshalBinary(form); !errors.Is(err, ErrFormat) {
					t.Fatalf("%v, %s: %v", kind, name, err)
				}
			}
		}
	}
}

// FuzzRecord: any bytes are refused or are a record that encodes to one which
// decodes to the same, and queries over it do not fail.
func FuzzRecord(f *testing.F) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 9 {
		x := someRecord(Kind(1+r.IntN(int(HyperLogLog))), r)
		form, _ := x.AppendBinary(nil)
		f.Add(form)
		form = oldForm(x)
		f.Add(form)
		form[0] = recordVersionPlain
		f.Add(form)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var x, y Record
		if err := x.UnmarshalBinary(b); err != nil {
			if !errors.Is(err, ErrFormat) {
				t.Fatalf("an error without ErrFormat: %v", err)
			}
			return
		}
		form, _ := x.AppendBinary(nil)
		if err := y.UnmarshalBinary(form); err != nil {
			t.Fatal(err)
		}
		var all Records
		if err := all.Add(&y); errors.Is(err, ErrPartial) {
			return
		} else if err != nil {
			t.Fatal(err)
		}
		_, _ = all.Flows(Query{Sketch: x.Fragment.Sketch, To: x.Epoch + 1})
		path := PathFunc(func(uint64) []uint64 { return []uint64{x.Fragment.Switch} })
		for _, how := range []Composition{Rows, Likeliest} {
			all.Frequency(Query{Sketch: x.Fragment.Sketch, From: x.Epoch, To: x.Epoch + 1, Composition: how}, 5, path)
		}
	})
}
