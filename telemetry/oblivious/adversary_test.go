package oblivious

import (
	"math/rand/v2"
	"testing"

	"github.com/weirswitch/weir/telemetry/hash"
)

// adversary chooses packets by the ranks that it believes they have: under a family of which it knows everything, or
// under a key that it guesses.
type adversary struct {
	believes hash.Family
	large    bool // it wants not to be sampled, not to be sampled always
}

// packets are the ids of n packets, the best of many.
func (a adversary) packets(r *rand.Rand, seed uint64, n int) (ids []uint64) {
	rank := func(id uint64) uint64 {
		return a.believes.Uint64(Config{Seed: seed, Hash: a.believes}.rankSeed(), id)
	}
	for len(ids) < n {
		id := r.Uint64()
		if x := rank(id); a.large && x > 3<<62 || !a.large && x < 1<<58 {
			ids = append(ids, id)
		}
	}
	return ids
}

// TestAdversary: bounds hold, and no sample is found to deny its switch's count, in all of 10,000 trials against a host that
// knows everything but the network's key: all seeds, the algorithm, another key. Each trial fails by chance with a probability of
// 2e-9 (two statements of 1e-9), all together with 2e-5 at most. The same host that knows the hash function, as without a key, breaks the
// bounds, and the switch's own count shows it.
func TestAdversary(t *testing.T) {
	const size, honest, hostile, delta = 64, 300, 300, 1e-9
	trials := 10_000
	if testing.Short() {
		trials = 1000
	}
	secret, err := hash.Keyed(hash.Network{0x5e, 0xc2, 0xe7, 1})
	guess, err2 := hash.Keyed(hash.Network{0x60, 0xe5, 0x50, 2})
	if err != nil || err2 != nil {
		t.Fatal(err, err2)
	}
	run := func(r *rand.Rand, trial int, family hash.Family, a adversary) (held, denied bool) {
		seed, unit := r.Uint64(), Packets
		if trial%2 == 1 {
			unit = Bytes
		}
		kind := []Kind{NWPS, UWRA, DUS}[trial/2%3]
		if unit == Bytes && kind == DUS {
			kind = NWPS
		}
		s, err := NewSampler(Config{Kind: kind, Unit: unit, Size: size, Seed: seed, Hash: family})
		if err != nil {
			t.Fatal(err)
		}
		packets, bytes := 0., 0.
		add := func(id uint64, length uint32) {
			s.Add(id, length, &Key{Version: 4, SrcPort: uint16(id)})
			packets, bytes = packets+1, bytes+float64(length)
		}
		for range honest {
			add(r.Uint64(), 60+r.Uint32N(1400))
		}
		for _, id := range a.packets(r, seed, hostile) {
			add(id, 60)
		}
		sample := s.Sample()
		of, truth := Packets, packets
		if unit == Bytes {
			of, truth = Bytes, bytes
		}
		e, err := sample.Volume(of, delta)
		if err != nil {
			t.Fatal(err)
		}
		surplus, excess := sample.Judge()
		return e.Low <= truth && truth <= e.High, surplus != 0 || excess != 0
	}
	r := rand.New(rand.NewPCG(26, 2))
	held, denied := 0, 0
	for trial := range trials {
		a := adversary{believes: guess, large: trial%5 == 0}
		if trial%7 == 0 {
			a.believes = hash.XX
		}
		h, d := run(r, trial, secret, a)
		if h {
			held++
		}
		if d {
			denied++
		}
	}
	t.Logf("bounds hold in %d of %d trials; %d samples are denied by the switch's count", held, trials, denied)
	if held != trials || denied != 0 {
		t.Errorf("bounds hold in %d of %d trials; %d samples are denied", held, trials, denied)
	}
	broken := 0
	for range 100 {
		h, d := run(r, 0, hash.XX, adversary{believes: hash.XX})
		if !h && d {
			broken++
		}
	}
	if broken < 90 {
		t.Errorf("a host that knows the hash function breaks the bounds, and is seen, in %d of 100 trials only: the test shows nothing", broken)
	}
}
