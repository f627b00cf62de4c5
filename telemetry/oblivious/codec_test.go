package oblivious

import (
	"bytes"
	"encoding/binary"
	"errors"
	"flag"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/weirswitch/weir/telemetry/hash"
)

var update = flag.Bool("update", false, "rewrite golden files")

func TestCodec(t *testing.T) {
	for _, c := range kinds {
		c.Size, c.Seed = 50, 77
		for _, n := range []int{0, 3, 400} {
			ps := packets(1, n, 10)
			s := sampler(t, c).addAll(ps).addAll(ps[:n/3]).addAll(ps[:n/9]).Sample() // some come again
			other, err := Improved(s, sampler(t, c).addAll(packets(2, n, 10)).Sample())
			if err != nil {
				t.Fatal(err)
			}
			for _, want := range []*Sample{s, other} {
				b, err := want.AppendBinary([]byte("front"))
				if err != nil {
					t.Fatal(err)
				}
				var got Sample
				if err := got.UnmarshalBinary(b[len("front"):]); err != nil {
					t.Fatal(err)
				}
				got.Hash = want.Hash // which a record's envelope tells
				if !sameEntries(&got, want) || got.Packets != want.Packets || got.Bytes != want.Bytes ||
					want.counted() && (got.Classes != want.Classes || !slices.Equal(got.Seen, want.Seen)) {
					t.Errorf("%s: a sample of %d packets came back different", c.name(), n)
				}
			}
		}
	}
}

// wholeForm is the encoding of version 1.
func wholeForm(s *Sample) []byte {
	le := binary.LittleEndian
	b := []byte{wholeVersion, byte(s.Kind), byte(s.Unit), 0}
	b = le.AppendUint32(le.AppendUint32(b, uint32(s.Size)), uint32(len(s.Entries)))
	for _, v := range []uint64{s.Seed, s.Threshold.Value, s.Threshold.ID, s.Packets, s.Bytes} {
		b = le.AppendUint64(b, v)
	}
	for _, e := range s.Entries {
		b = le.AppendUint32(le.AppendUint64(le.AppendUint64(b, e.Rank.Value), e.Rank.ID), e.Bytes)
		b = append(b, e.Key.Proto, e.Key.Version)
		b = le.AppendUint16(le.AppendUint16(b, e.Key.SrcPort), e.Key.DstPort)
		n, _ := addressSize(e.Key.Version)
		b = append(append(b, e.Key.Src[:n]...), e.Key.Dst[:n]...)
	}
	return b
}

// TestGolden: the format does not change unnoticed, and what was written in the one before is read.
func TestGolden(t *testing.T) {
	s := sampler(t, Config{Kind: NWPS, Unit: Bytes, Size: 5, Seed: 1}).addAll(packets(1, 100, 10)).Sample()
	form, err := s.MarshalBinary()
	if err != nil {
		t.Fatal(err)
	}
	plain := s.Clone()
	plain.Seen = nil
	before, err := plain.MarshalBinary()
	if err != nil {
		t.Fatal(err)
	}
	for name, b := range map[string][]byte{"sample-v1.bin": wholeForm(s), "sample-v2.bin": before, "sample-v3.bin": form} {
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
		if !bytes.Equal(b, want) {
			t.Errorf("%d bytes differ from the %d of %s", len(b), len(want), file)
		}
		var got Sample
		if err := got.UnmarshalBinary(want); err != nil || !sameEntries(&got, s) || got.counted() != (name == "sample-v3.bin") {
			t.Errorf("%s: %v, %+v", name, err, got)
		}
	}
}

// TestCodecIsShort: keys, lengths and ranks of a large sample take about a third of what they took.
func TestCodecIsShort(t *testing.T) {
	for family, most := range map[hash.Family]float64{hash.XX: 0.36, hash.AES: 0.48} {
		s := sampler(t, Config{Kind: NWPS, Unit: Bytes, Size: 2000, Seed: 1, Hash: family}).addAll(packets(1, 100_000, 300)).Sample()
		b, err := s.MarshalBinary()
		if err != nil {
			t.Fatal(err)
		}
		if old := wholeForm(s); float64(len(b)) > most*float64(len(old)) {
			t.Errorf("%v: %d bytes took %d", family, len(b), len(old))
		}
	}
}

// TestShrink: a sample that is made smaller is that of a smaller sampler.
func TestShrink(t *testing.T) {
	for _, c := range kinds {
		c.Size = 50
		s := sampler(t, c).addAll(packets(3, 400, 10)).Sample()
		c.Size = 20
		want := sampler(t, c).addAll(packets(3, 400, 10)).Sample()
		s.Shrink(100)
		if s.Shrink(20); !sameEntries(s, want) || s.Threshold != want.Threshold {
			t.Errorf("%s: %d entries up to %v, not %d up to %v", c.name(), len(s.Entries), s.Threshold, len(want.Entries), want.Threshold)
		}
	}
}

func TestCodecRefuses(t *testing.T) {
	s := sampler(t, Config{Kind: UWRA, Unit: Bytes, Size: 10, Seed: 5}).addAll(packets(1, 30, 1)).Sample()
	good := wholeForm(s)
	form, err := s.MarshalBinary()
	if err != nil {
		t.Fatal(err)
	}
	for n := range form {
		if err := new(Sample).UnmarshalBinary(form[:n]); !errors.Is(err, ErrFormat) {
			t.Fatalf("the first %d bytes of version 3: %v", n, err)
		}
	}
	for n := range good {
		if err := new(Sample).UnmarshalBinary(good[:n]); !errors.Is(err, ErrFormat) {
			t.Fatalf("the first %d bytes: %v", n, err)
		}
	}
	entry := func(i int) int { return headerSize + i*(minEntrySize+32) } // flow 0 has IPv6 addresses
	for name, change := range map[string]func(b []byte) []byte{
		"version":         func(b []byte) []byte { b[0] = 4; return b },
		"no version":      func(b []byte) []byte { b[0] = 0; return b },
		"reserved byte":   func(b []byte) []byte { b[3] = 1; return b },
		"kind":            func(b []byte) []byte { b[1] = 4; return b },
		"unit":            func(b []byte) []byte { b[2] = 0; return b },
		"dus in bytes":    func(b []byte) []byte { b[1] = byte(DUS); return b },
		"size":            func(b []byte) []byte { b[7] = 0xff; return b },
		"size above":      func(b []byte) []byte { b[4] = 11; return b },
		"count":           func(b []byte) []byte { binary.LittleEndian.PutUint32(b[8:], 1<<31); return b },
		"less entries":    func(b []byte) []byte { b[8]--; return b },
		"more entries":    func(b []byte) []byte { b[8]++; return b },
		"threshold":       func(b []byte) []byte { b[20]++; return b },
		"trailing":        func(b []byte) []byte { return append(b, 0) },
		"key version":     func(b []byte) []byte { b[entry(0)+21] = 5; return b },
		"last key":        func(b []byte) []byte { b[entry(9)+21] = 4; return b },
		"no bytes":        func(b []byte) []byte { binary.LittleEndian.PutUint32(b[entry(3)+16:], 0); return b },
		"order":           func(b []byte) []byte { copy(b[entry(4):entry(5)], b[entry(5):entry(6)]); return b },
		"order decreases": func(b []byte) []byte { b[entry(4)+7] = 0xff; return b },
	} {
		kept := Sample{Size: 42}
		if err := kept.UnmarshalBinary(change(bytes.Clone(good))); !errors.Is(err, ErrFormat) {
			t.Errorf("%s: %v", name, err)
		}
		if kept.Size != 42 {
			t.Errorf("%s: a refused encoding changed the sample", name)
		}
	}
	// A count for which the input has no room takes no memory.
	hostile := bytes.Clone(good[:headerSize])
	binary.LittleEndian.PutUint32(hostile[8:], 1<<32-1)
	if n := testing.AllocsPerRun(10, func() { _ = new(Sample).UnmarshalBinary(hostile) }); n > 20 {
		t.Errorf("%v allocations", n)
	}
	s.Entries[0].Key.Version = 9
	if _, err := s.MarshalBinary(); err == nil {
		t.Error("a key of version 9 is encoded")
	}
	u, _ := Union(sampler(t, Config{Kind: UWRA, Unit: Bytes, Size: 10}).Sample())
	if _, err := u.MarshalBinary(); err == nil {
		t.Error("a union is encoded")
	}
}

func FuzzUnmarshal(f *testing.F) {
	for _, c := range kinds {
		c.Size = 4
		b, err := sampler(f, c).addAll(packets(1, 20, 3)).Sample().MarshalBinary()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
		f.Add(wholeForm(sampler(f, c).addAll(packets(1, 20, 3)).Sample()))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var s, same Sample
		if s.UnmarshalBinary(b) != nil {
			return
		}
		again, err := s.MarshalBinary()
		if err == nil {
			err = same.UnmarshalBinary(again)
		}
		if err != nil || !sameEntries(&s, &same) || s.Packets != same.Packets || s.Bytes != same.Bytes {
			t.Fatalf("what is accepted is encoded differently: %v", err)
		}
		// Whatever is accepted can be merged and asked.
		of := Packets
		if s.Unit == Flows {
			of = Flows
		}
		for _, merge := range []func(...*Sample) (*Sample, error){Simple, Improved, Union} {
			m, err := merge(&s, &s)
			if err != nil {
				t.Fatal(err)
			}
			flows, err := m.HeavyHitters(of, 0.1, 0.05, 0.1)
			if err != nil {
				t.Fatal(err)
			}
			volume, err := m.Volume(of, 0.1)
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range append(flows, Flow{Estimate: volume}) {
				if !(0 <= f.Low && f.Low <= f.Value*(1+1e-9) && f.Value <= f.High*(1+1e-9)) || math.IsInf(f.High, 0) {
					t.Fatalf("a flow of %+v", f.Estimate)
				}
			}
			if share, err := m.Share(of, 0.1, HasProto(6)); err != nil || !(0 <= share.Low && share.High <= 1) {
				t.Fatalf("a share of %+v, %v", share, err)
			}
		}
	})
}
