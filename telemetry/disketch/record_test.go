package disketch

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/weirswitch/weir/telemetry/hash"
)

func someRecord(kind Kind, r *rand.Rand) *Record {
	f, err := NewFragment(Config{ID: ID{r.Uint64(), uint16(r.IntN(9))}, Kind: kind, Unit: Unit(r.IntN(2)), Memory: 64 + r.IntN(500), Epochs: 25, Seed: r.Uint64(), Hash: hash.Family(r.IntN(3)), SingleHop: r.IntN(2) == 0, Candidates: 8 * r.IntN(2)})
	if err != nil {
		panic(err)
	}
	c, _ := f.NewCounter()
	s := f.Begin(r.Uint64N(1 << 37))
	s.Log = uint8(r.IntN(5))
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

func TestRecordRoundTrip(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 4))
	for range 200 {
		a := someRecord(Kind(1+r.IntN(3)), r)
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

// FuzzRecord: any bytes are refused or are a record that encodes to one which
// decodes to the same, and queries over it do not fail.
func FuzzRecord(f *testing.F) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 9 {
		form, _ := someRecord(Kind(1+r.IntN(3)), r).AppendBinary(nil)
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
		path := PathFunc(func(uint64) []uint64 { return []uint64{x.Fragment.Switch} })
		for _, how := range []Composition{Rows, Likeliest} {
			all.Frequency(Query{Sketch: x.Fragment.Sketch, From: x.Epoch, To: x.Epoch + 1, Composition: how}, 5, path)
		}
	})
}
