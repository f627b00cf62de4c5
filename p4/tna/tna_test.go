// The tests hold what the programs for Tofino compute in other ways than the Go stages
// against these: no Tofino is needed.
package tna_test

import (
	"math/rand/v2"
	"os"
	"regexp"
	"strconv"
	"testing"

	"github.com/weirswitch/weir/telemetry/hash"
	"github.com/weirswitch/weir/telemetry/lds"
)

func source(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile("include/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// number finds the value of a macro, of which the group of the expression is the name.
func number(t *testing.T, text, macro string) uint64 {
	t.Helper()
	m := regexp.MustCompile(`#define ` + macro + ` 32w(0x[0-9a-f]{8})\n`).FindStringSubmatch(text)
	if m == nil {
		t.Fatalf("no macro %s", macro)
	}
	v, err := strconv.ParseUint(m[1], 0, 32)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// TestShorterMessages proves what block.p4 says: behind eight bytes and zeros, a message
// in the place of a longer one has its own CRCs, and so all its hashes.
func TestShorterMessages(t *testing.T) {
	text := source(t, "block.p4")
	prefix := func(name string) uint64 {
		wire := number(t, text, name+"_HIGH")<<32 | number(t, text, name+"_LOW")
		word := uint64(0) // words are little-endian
		for i := range 8 {
			word |= wire >> (56 - 8*i) & 0xff << (8 * i)
		}
		return word
	}
	by24, by32 := prefix("SHORTER_BY_24"), prefix("SHORTER_BY_32")
	r := rand.New(rand.NewPCG(1, 2))
	for range 1000 {
		s, a, b, c, d, e := r.Uint64(), r.Uint64(), r.Uint64(), r.Uint64(), r.Uint64(), r.Uint64()
		if hash.CRC.Uint64x5(s, a, b, c, d, e) != hash.CRC.Uint64x8(s, &[8]uint64{by24, 0, 0, a, b, c, d, e}) {
			t.Fatal("an id of IPv4 in the place of IPv6's")
		}
		if hash.CRC.Uint64x4(s, a, b, c, d) != hash.CRC.Uint64x8(s, &[8]uint64{by32, 0, 0, 0, a, b, c, d}) {
			t.Fatal("an id of another packet in the place of IPv6's")
		}
		if hash.CRC.Uint64x2(s, a, b) != hash.CRC.Uint64x5(s, by24, 0, 0, a, b) {
			t.Fatal("a flow key of IPv4 in the place of IPv6's")
		}
	}
}

const (
	intervalBits = 30
	interval     = int64(1) << intervalBits
)

// entries are those of a table of lds_control.p4: what their fields match, -1 for all.
func entries(t *testing.T, action string) (keys [][4]int, parameters [][2]uint32) {
	t.Helper()
	for _, m := range regexp.MustCompile(`\((\d), (\d|_), (\d|_), (\d|_)\) : `+action+`\((\d), (\d)\);`).FindAllStringSubmatch(source(t, "lds_control.p4"), -1) {
		var k [4]int
		for i := range k {
			k[i] = -1
			if m[1+i] != "_" {
				k[i], _ = strconv.Atoi(m[1+i])
			}
		}
		a, _ := strconv.Atoi(m[5])
		b, _ := strconv.Atoi(m[6])
		keys, parameters = append(keys, k), append(parameters, [2]uint32{uint32(a), uint32(b)})
	}
	if len(keys) != 16 {
		t.Fatalf("%d entries with the action %s", len(keys), action)
	}
	return keys, parameters
}

// side is the table of intervals, as both sides apply it: x is the time and half an
// interval, of which 32 bits are left.
type side struct {
	keys       [][4]int
	parameters [][2]uint32
}

func (s *side) apply(t *testing.T, timeNs int64, marked, key int) (bank, x uint32, hit bool) {
	t.Helper()
	x = uint32(timeNs + interval/2)
	fields := [4]int{marked, key, int(x >> intervalBits), int(x >> (intervalBits - 1) & 1)}
	for i, k := range s.keys {
		same := true
		for j := range k {
			same = same && (k[j] < 0 || k[j] == fields[j])
		}
		if same {
			if hit {
				t.Fatalf("two entries match %v", fields)
			}
			hit = true
			bank, x = s.parameters[i][0], s.parameters[i][1]<<intervalBits|uint32(timeNs+interval/2)&uint32(interval-1)
		}
	}
	return bank, x, hit
}

// nearest is the interval of a parity that is nearest to a time.
func nearest(at, odd int64) int64 {
	number := at >> intervalBits
	if number&1 == odd {
		return number
	}
	if at-number*interval < interval/2 {
		return number - 1
	}
	return number + 1
}

// TestIntervals compares the intervals of both sides, and the times in them, with what
// stages/lds does.
func TestIntervals(t *testing.T) {
	var s side
	s.keys, s.parameters = entries(t, "in_bank")
	r := rand.New(rand.NewPCG(3, 4))
	for range 20_000 {
		at := r.Int64N(1 << 62)
		marked, odd := r.IntN(2), r.Int64N(2)
		number := at >> intervalBits
		if marked == 1 {
			number = nearest(at, odd)
		}
		if bank, x, hit := s.apply(t, at, marked, int(odd)); !hit || bank != uint32(number&1) || int64(x) != at-number*interval+interval/2 {
			t.Fatalf("time %#x, marked %d, odd %d: bank %d, x %#x", at, marked, odd, bank, x)
		}
	}
}

// registers are what a row has in place of a cell.
type registers struct{ times, bytes, digests, counts [2]uint32 }

// down is what a stateful ALU can do: it compares, and takes away.
func down(sum *[2]uint32, v uint32) {
	if sum[0] < v {
		sum[1]--
	}
	sum[0] -= v
}

func (c *registers) add(x, bytes uint32, digest uint64) {
	down(&c.times, x)
	down(&c.bytes, bytes)
	down(&c.digests, uint32(digest))
	c.counts[0] += uint32(digest >> 32)
	c.counts[1]++
}

// cell is the sum of what lds_control.p4 says, of an interval between two readings.
func cell(before, after *registers) lds.Cell {
	sum := func(b, a [2]uint32) uint64 {
		return (uint64(b[1])<<32 | uint64(b[0])) - (uint64(a[1])<<32 | uint64(a[0]))
	}
	n := uint64(after.counts[1] - before.counts[1])
	return lds.Cell{
		Sum:    int64(sum(before.times, after.times) - n*uint64(interval/2)),
		Count:  n,
		Digest: uint32(sum(before.digests, after.digests)),
		Bytes:  sum(before.bytes, after.bytes),
	}
}

// TestCells compares the cell that a control plane makes of the registers with that of
// telemetry/lds.
func TestCells(t *testing.T) {
	p, err := lds.NewPoint(lds.Config{Rows: 1, Columns: 1, Virtual: 1, IntervalNs: interval, Seed: 9})
	if err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(5, 6))
	packetSeed := uint64(0x6c6473_0200) // of telemetry/lds
	for range 200 {
		// The registers hold what earlier intervals left.
		word := func() [2]uint32 { return [2]uint32{r.Uint32(), r.Uint32()} }
		before := registers{word(), word(), word(), word()}
		after := before
		p.Begin(0)
		for range r.IntN(3000) {
			id, at, bytes := r.Uint64(), r.Int64N(2*interval)-interval/2, 60+r.Uint32N(9000)
			p.Add(0, id, at, bytes)
			after.add(uint32(at+interval/2), bytes, hash.Uint64(9+packetSeed, id))
		}
		if got, want := cell(&before, &after), p.Cell(0, 0); got != want {
			t.Fatalf("cell %+v, want %+v", got, want)
		}
	}
}
