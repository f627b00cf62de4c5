package hash

import (
	"fmt"
	"hash/crc64"
	"math"
	"math/rand/v2"
	"testing"
)

// What the switch relies on, stated so that any family can be put to the same
// tests. Each statistic is turned into a standard normal deviate; maxDeviate
// bounds all of them. A truly random family exceeds 6.8 with a chance of 1e-11
// (two-sided), and the tests look at fewer than 90,000 deviates, so chance
// alone fails them with less than 1e-6. The inputs are fixed, so a pass
// is a pass for ever.
const maxDeviate = 6.8

// family is a seeded hash of one word.
type family func(seed, x uint64) uint64

// families are the ways in which the package hashes one varying word, beside
// constant ones, in XXH64, in crc and in aes.
var families = map[string]family{
	"aes Uint64":   AES.Uint64,
	"aes Uint64x2": func(s, x uint64) uint64 { return AES.Uint64x2(s, 7, x) },
	"aes Uint64x4": func(s, x uint64) uint64 { return AES.Uint64x4(s, 1, 2, x, 4) },
	"aes Uint64x5": func(s, x uint64) uint64 { return AES.Uint64x5(s, 1, 2, 3, 4, x) },
	"aes Uint64x8": func(s, x uint64) uint64 { return AES.Uint64x8(s, &[8]uint64{1, 2, 3, 4, x, 6, 7, 8}) },

	"crc Uint64":   CRC.Uint64,
	"crc Uint64x2": func(s, x uint64) uint64 { return CRC.Uint64x2(s, 7, x) },
	"crc Uint64x4": func(s, x uint64) uint64 { return CRC.Uint64x4(s, 1, 2, x, 4) },
	"crc Uint64x5": func(s, x uint64) uint64 { return CRC.Uint64x5(s, 1, 2, 3, 4, x) },
	"crc Uint64x8": func(s, x uint64) uint64 { return CRC.Uint64x8(s, &[8]uint64{1, 2, 3, 4, x, 6, 7, 8}) },

	"Uint64":   Uint64,
	"Uint64x2": func(s, x uint64) uint64 { return Uint64x2(s, 7, x) },
	"Uint64x4": func(s, x uint64) uint64 { return Uint64x4(s, 1, 2, x, 4) },
	"Uint64x5": func(s, x uint64) uint64 { return Uint64x5(s, 1, 2, 3, 4, x) },
	"Uint64x8": func(s, x uint64) uint64 { return Uint64x8(s, &[8]uint64{1, 2, 3, 4, x, 6, 7, 8}) },
}

// keys are input sets as structured as packets are.
var keys = map[string]func(i uint64) uint64{
	"counter":   func(i uint64) uint64 { return i },
	"high":      func(i uint64) uint64 { return i << 44 },
	"addresses": func(i uint64) uint64 { return 0x0a000000<<32 | (i&0xff)<<40 | 0xc0a80000 | i>>8 },
	"ports":     func(i uint64) uint64 { return (1024+(i&0x3ff))<<16 | (i>>10)<<32 | 443 },
}

// seedSets: neighbours, powers of two, and far apart.
var seedSets = map[string][]uint64{
	"consecutive": {0, 1, 2, 3, 4, 5, 6, 7},
	"powers":      {1 << 8, 1 << 16, 1 << 24, 1 << 32, 1 << 40, 1 << 48, 1 << 56, 1 << 63},
	"random":      {0x9d2c5680a3b1f7e4, 0x41c64e6d12ab90ff, 0xfeedfacecafebeef, 0x0123456789abcdef},
}

// TestFamily runs the tests on every family, in the order of what they ask.
func TestFamily(t *testing.T) {
	for name, f := range families {
		t.Run(name, func(t *testing.T) {
			ds := deviates(f)
			failed, worst := 0, ds[0]
			for _, d := range ds {
				if math.Abs(d.z) > math.Abs(worst.z) {
					worst = d
				}
				if math.Abs(d.z) > maxDeviate {
					failed++
				}
			}
			if failed > 0 {
				t.Errorf("%d of %d deviates beyond %.1f; worst: %s, %.1f", failed, len(ds), maxDeviate, worst.what, worst.z)
			}
			if z := worstAvalanche(f); z > maxDeviate {
				t.Errorf("avalanche: deviate %.1f, beyond %.1f", z, maxDeviate)
			}
		})
	}
}

// TestFamilyTestsSeeACRC puts a bare CRC to the same tests. Its members differ
// by a constant, so decisions under two seeds are not independent; tests that
// let it pass would show nothing.
func TestFamilyTestsSeeACRC(t *testing.T) {
	table := crc64.MakeTable(crc64.ECMA)
	crc := func(seed, x uint64) uint64 {
		var b [16]byte
		for i := range 8 {
			b[i], b[8+i] = byte(seed>>(8*i)), byte(x>>(8*i))
		}
		return crc64.Checksum(b[:], table)
	}
	worst := map[string]float64{}
	for _, d := range deviates(crc) {
		worst[d.kind] = max(worst[d.kind], math.Abs(d.z))
	}
	for _, kind := range []string{"pair", "joint"} {
		if worst[kind] < 10*maxDeviate {
			t.Errorf("the %s tests give a bare CRC a deviate of %.1f only", kind, worst[kind])
		}
	}
	if worstAvalanche(crc) < maxDeviate {
		t.Error("the avalanche test passes a bare CRC")
	}
}

type deviate struct {
	kind, what string
	z          float64
}

// deviates computes the chi-square tests of a family: each member alone
// (uniform in its high and low 10 bits), each pair of members (independent in
// their high 4 bits), and all members of a set at once (the number of them
// that accept an input with probability 1/4 is binomial).
func deviates(f family) []deviate {
	n := 1 << 16
	if testing.Short() {
		n = 1 << 14
	}
	var ds []deviate
	h := make([][]uint64, 8)
	for set, key := range keys {
		for seeds, members := range seedSets {
			for m, seed := range members {
				h[m] = h[m][:0]
				for i := range uint64(n) {
					h[m] = append(h[m], f(seed, key(i)))
				}
				where := fmt.Sprintf("%s, seed %x", set, seed)
				ds = append(ds,
					deviate{"one", "high bits of " + where, uniform(h[m], 1<<10, func(i int) uint64 { return h[m][i] >> 54 })},
					deviate{"one", "low bits of " + where, uniform(h[m], 1<<10, func(i int) uint64 { return h[m][i] & 1023 })})
			}
			for a := range members {
				for b := range a {
					z := uniform(h[a], 1<<8, func(i int) uint64 { return h[a][i]>>60<<4 | h[b][i]>>60 })
					ds = append(ds, deviate{"pair", fmt.Sprintf("%s, seeds %x and %x", set, members[a], members[b]), z})
				}
			}
			ds = append(ds, deviate{"joint", set + ", decisions of " + seeds + " seeds", binomial(h[:len(members)])})
		}
	}
	return ds
}

// uniform tests that cells are equally likely.
func uniform(h []uint64, cells int, cell func(i int) uint64) float64 {
	seen := make([]float64, cells)
	for i := range h {
		seen[cell(i)]++
	}
	want := make([]float64, cells)
	for i := range want {
		want[i] = float64(len(h)) / float64(cells)
	}
	return chiSquare(seen, want)
}

// binomial tests how many members accept each input with probability 1/4.
// Counts of five and more share a cell, as their expectation is small.
func binomial(h [][]uint64) float64 {
	k, cells := len(h), min(len(h), 5)+1
	seen, want := make([]float64, cells), make([]float64, cells)
	for i := range h[0] {
		accepted := 0
		for m := range h {
			if h[m][i] < 1<<62 {
				accepted++
			}
		}
		seen[min(accepted, cells-1)]++
	}
	choose := 1.0
	for j := range k + 1 {
		want[min(j, cells-1)] += float64(len(h[0])) * choose * math.Pow(0.25, float64(j)) * math.Pow(0.75, float64(k-j))
		choose *= float64(k-j) / float64(j+1)
	}
	return chiSquare(seen, want)
}

// chiSquare turns Pearson's statistic into a standard normal deviate (Wilson
// and Hilferty, 1931). Only the upper tail is a fault of the family; a lower
// tail this far would be one of the test.
func chiSquare(seen, want []float64) float64 {
	x := 0.0
	for i := range seen {
		x += (seen[i] - want[i]) * (seen[i] - want[i]) / want[i]
	}
	dof := float64(len(seen) - 1)
	return (math.Cbrt(x/dof) - (1 - 2/(9*dof))) / math.Sqrt(2/(9*dof))
}

// worstAvalanche flips each bit of the input and of the seed, and returns the
// largest deviate, over all pairs of flipped and observed bit, of how often
// the observed bit flipped.
func worstAvalanche(f family) float64 {
	n := 4096
	if testing.Short() {
		n = 1024
	}
	r := rand.New(rand.NewPCG(5, 6))
	worst := 0.0
	for in := range 128 {
		var flips [64]int
		for range n {
			seed, x := r.Uint64(), r.Uint64()
			d := f(seed, x)
			if in < 64 {
				d ^= f(seed, x^1<<in)
			} else {
				d ^= f(seed^1<<(in-64), x)
			}
			for out := range flips {
				flips[out] += int(d >> out & 1)
			}
		}
		for _, k := range flips {
			worst = max(worst, math.Abs(float64(k)-float64(n)/2)/math.Sqrt(float64(n)/4))
		}
	}
	return worst
}
