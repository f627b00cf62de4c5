package hash

import (
	"crypto/aes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
)

// withAES runs f with all instructions for AES that the processor has, with less and without any.
func withAES(t *testing.T, f func(t *testing.T)) {
	has, two := hasAES, hasVAES
	defer func() { hasAES, hasVAES = has, two }()
	for _, way := range aesWays {
		if way.has && !has || way.two && !two {
			t.Logf("the processor lacks %s", way.name)
			continue
		}
		hasAES, hasVAES = way.has, way.two
		t.Run(way.name, f)
	}
}

var aesWays = []struct {
	name     string
	has, two bool
}{{"plain", false, false}, {"AES", true, false}, {"VAES", true, true}}

func bytesOf(b block) []byte {
	return binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(nil, b[0]), b[1])
}

func blockOf(b []byte) block {
	return block{binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint64(b[8:])}
}

func randomKey(r *rand.Rand) (k Network) {
	for i := range k {
		k[i] = byte(r.Uint32())
	}
	return k
}

// libraryAES is AES-128 of the library.
func libraryAES(t testing.TB, k Network) func(block) block {
	c, err := aes.NewCipher(k[:])
	if err != nil {
		t.Fatal(err)
	}
	return func(m block) block {
		out := make([]byte, 16)
		c.Encrypt(out, bytesOf(m))
		return blockOf(out)
	}
}

// TestEncryptIsAES compares E with the library.
func TestEncryptIsAES(t *testing.T) {
	withAES(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(23, 1))
		for range 200 {
			k := randomKey(r)
			s, e := newSchedule(k), libraryAES(t, k)
			for range 20 {
				m := block{r.Uint64(), r.Uint64()}
				if got, want := s.encrypt(m), e(m); got != want {
					t.Fatalf("key %x, block %x: %x, want %x", k[:], m, got, want)
				}
			}
		}
	})
}

// TestRoundsOfAES: four rounds are the middle of AES, whose other rounds are undone by the plain ones.
func TestRoundsOfAES(t *testing.T) {
	withAES(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(23, 2))
		s := newSchedule(randomKey(r))
		for i := range s.mix {
			for range 200 {
				m := block{r.Uint64(), r.Uint64()}
				if got, want := s.rounds4(i, m), s.plain4(i, m); got != want {
					t.Fatalf("R%d of %x: %x, want %x", i+1, m, got, want)
				}
			}
		}
		// Nine rounds under the round keys and the last one are E, so round is AES's.
		m := block{1, 2}
		if s.plain(m) != libraryAES(t, s.key)(m) {
			t.Error("the plain rounds are not those of AES")
		}
	})
}

// aesTwin is the definition of the family, by the library's AES.
func aesTwin(t testing.TB, k Network, seed uint64, w []uint64) block {
	e := libraryAES(t, k)
	x := e(block{seed, 'D'<<56 | uint64(len(w))})
	add := func(b block) { x[0] ^= b[0]; x[1] ^= b[1] }
	switch len(w) {
	case 1:
		add(block{w[0], 0})
	case 2:
		add(block{w[1], w[0]})
	default:
		for i := 0; len(w) > 2; i, w = i+1, w[2:] {
			var keys [4]block
			for j := range keys {
				keys[j] = e(block{uint64(4*i + j), 'M' << 56})
			}
			m := block{w[0] ^ keys[0][0], w[1] ^ keys[0][1]}
			add(m.round(keys[1]).round(keys[2]).round(keys[3]).round(block{}))
		}
		add(block{w[0], append(w, 0)[1]})
	}
	return e(x)
}

// TestAESIsItsDefinition compares single hashes with the definition, for all numbers of words.
func TestAESIsItsDefinition(t *testing.T) {
	withAES(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(23, 3))
		for range 500 {
			k := randomKey(r)
			f, err := Keyed(k)
			if err != nil {
				continue // 500 of 65,536 ids: a few meet
			}
			seed := r.Uint64() >> (8 * r.IntN(8))
			var w [8]uint64
			for i := range w {
				w[i] = r.Uint64() >> (8 * r.IntN(8))
			}
			for _, c := range []struct {
				words int
				got   uint64
			}{
				{1, f.Uint64(seed, w[0])},
				{2, f.Uint64x2(seed, w[0], w[1])},
				{4, f.Uint64x4(seed, w[0], w[1], w[2], w[3])},
				{5, f.Uint64x5(seed, w[0], w[1], w[2], w[3], w[4])},
				{8, f.Uint64x8(seed, &w)},
			} {
				if want := aesTwin(t, k, seed, w[:c.words:c.words])[0]; c.got != want {
					t.Fatalf("key %x, seed %x, first %d of %x: %016x, want %016x", k[:], seed, c.words, w, c.got, want)
				}
			}
		}
	})
}

// requireInstructions skips the test where there are no instructions, and fails it with WEIR_REQUIRE_INSTRUCTIONS=1.
func requireInstructions(t *testing.T, has bool, what string) {
	t.Helper()
	const variable = "WEIR_REQUIRE_INSTRUCTIONS"
	switch {
	case has:
	case os.Getenv(variable) == "1":
		t.Fatalf("%s=1, but no instructions for %s are used here", variable, what)
	default:
		t.Skipf("no instructions for %s are used here", what)
	}
}

// TestAESTwinsAgree compares the assembly with the plain rounds over ten million packets' hashes: all that batches
// compute, under several keys.
func TestAESTwinsAgree(t *testing.T) {
	requireInstructions(t, hasAES, "AES")
	packets := 10_000_000
	if testing.Short() {
		packets = 100_000
	}
	two := hasVAES
	defer func() { hasAES, hasVAES = true, two }()
	r := rand.New(rand.NewPCG(23, 4))
	const n = 61
	var w [5][]uint64
	for j := range w {
		w[j] = make([]uint64, n)
	}
	dst := [3][4][n]uint64{}
	for done := 0; done < packets; done += n {
		f := AES
		if done%2 == 0 {
			f = FamilyOf(AES, testKeyID)
		}
		seed, first := r.Uint64(), r.Uint64()
		for j := range w {
			for i := range w[j] {
				w[j][i] = r.Uint64()
			}
		}
		for way := range dst {
			hasAES, hasVAES = aesWays[way].has, aesWays[way].two && two
			d := &dst[way]
			f.Uint64s(d[0][:], seed, w[0])
			f.Uint64x2s(d[1][:], seed, w[0], w[1])
			f.Uint64x5s(d[2][:], seed, w[0], w[1], w[2], w[3], w[4])
			f.Uint64sBehind(d[3][:], seed, first, w[0])
		}
		if dst[0] != dst[1] || dst[0] != dst[2] {
			t.Fatalf("seed %x: assembly and plain rounds differ", seed)
		}
	}
}

// testKeyID is of a key that tests use.
var testKeyID = func() uint16 {
	f, err := Keyed(Network{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16})
	if err != nil {
		panic(err)
	}
	return f.KeyID()
}()

// TestAESKnownAnswers pins the family, for other implementations to compare with: another program, with an AES
// of its own, worked the hashes out. The key is of the bytes 1 to 16, with the id 1c2a.
func TestAESKnownAnswers(t *testing.T) {
	withAES(t, func(t *testing.T) {
		for _, c := range []struct {
			keyID uint16
			seed  uint64
			words []uint64
			want  uint64
		}{
			{0, 0, []uint64{0}, 0x28b630dea57e1f63},
			{0, 1, []uint64{0}, 0xffdf5d9fdf573991},
			{testKeyID, 0, []uint64{0}, 0xe8b062b9820aaf0e},
			{testKeyID, 0x1122334455667788, []uint64{1, 2}, 0x46df15a9a8db8bce},
			{testKeyID, 7, []uint64{1, 2, 3, 4}, 0x993f267c28ff7774},
			{testKeyID, 42, []uint64{1, 2, 3, 4, 5}, 0x2a51d5b3ce52fae4},
			{testKeyID, 7, []uint64{1, 2, 3, 4, 5, 6, 7, 8}, 0xfe8205dec6c382d5},
		} {
			f := FamilyOf(AES, c.keyID)
			var got uint64
			switch w := c.words; len(w) {
			case 1:
				got = f.Uint64(c.seed, w[0])
			case 2:
				got = f.Uint64x2(c.seed, w[0], w[1])
			case 4:
				got = f.Uint64x4(c.seed, w[0], w[1], w[2], w[3])
			case 5:
				got = f.Uint64x5(c.seed, w[0], w[1], w[2], w[3], w[4])
			case 8:
				got = f.Uint64x8(c.seed, (*[8]uint64)(w))
			}
			if got != c.want {
				t.Errorf("key id %04x, seed %x, words %x: %016x, want %016x", c.keyID, c.seed, c.words, got, c.want)
			}
		}
	})
}

// TestKeys: a key is found by its id, shows itself nowhere, and makes other hashes.
func TestKeys(t *testing.T) {
	a, b := Network{1}, Network{2}
	fa, err := Keyed(a)
	if err != nil {
		t.Fatal(err)
	}
	fb, err := Keyed(b)
	if err != nil {
		t.Fatal(err)
	}
	again, err := Keyed(a)
	if err != nil || again != fa || fa == fb || fa == AES {
		t.Errorf("%v, %v and %v, %v are to be two families", fa, again, fb, err)
	}
	if fa.Uint64(1, 2) == fb.Uint64(1, 2) || fa.Uint64(1, 2) == AES.Uint64(1, 2) {
		t.Error("keys do not matter")
	}
	for _, s := range []string{fmt.Sprint(a), fmt.Sprintf("%v %+v %#v %s", a, a, a, a)} {
		if strings.Contains(s, "1 0 0") || strings.Contains(s, "0x1,") {
			t.Errorf("a key shows itself: %s", s)
		}
	}
	text, err := fa.MarshalText()
	var back Family
	if err != nil || back.UnmarshalText(text) != nil || back != fa || !strings.HasPrefix(string(text), "aes:") {
		t.Errorf("%v is written %q and read as %v, %v", fa, text, back, err)
	}
	if f, err := Keyed(Network{}); err != nil || f != AES || f.KeyID() != 0 || !f.Known() {
		t.Errorf("the key of zeros makes %v, %v", f, err)
	}
	unknown := FamilyOf(AES, 0)
	for id := uint16(1); unknown.Known(); id++ {
		unknown = FamilyOf(AES, id)
	}
	if unknown.Kind() != AES || !unknown.Valid() {
		t.Errorf("%v is no family", unknown)
	}
	if FamilyOf(XX, 7).Valid() || FamilyOf(CRC, 7).Known() {
		t.Error("xxhash and crc have no key")
	}
	for _, text := range []string{"xxhash:0001", "aes:1", "aes:12345", "aes:zzzz", "aes:"} {
		if f := AES; f.UnmarshalText([]byte(text)) == nil {
			t.Errorf("%q is read as %v", text, f)
		}
	}
}

// TestKeysWithOneID: a second key with the id of another is refused.
func TestKeysWithOneID(t *testing.T) {
	byID := map[uint16]Network{}
	r := rand.New(rand.NewPCG(23, 5))
	for range 1 << 12 { // two of 4096 keys have one id, but with a chance of e^-128
		k := randomKey(r)
		other, ok := byID[k.ID()]
		byID[k.ID()] = k
		if !ok || other == k {
			continue
		}
		if _, err := Keyed(other); err != nil {
			continue // known from another test
		}
		if _, err := Keyed(k); err == nil {
			t.Errorf("keys %x and %x of id %04x are both accepted", other[:], k[:], k.ID())
		}
		return
	}
	t.Error("no two keys have one id")
}

// TestAESInPlace: hashes may replace an input, in groups and behind them.
func TestAESInPlace(t *testing.T) {
	withAES(t, func(t *testing.T) {
		for _, n := range []int{5, 8, 13, 16, 31, 64} {
			a, b := make([]uint64, n), make([]uint64, n)
			for i := range a {
				a[i], b[i] = uint64(i), uint64(i*i)
			}
			dst := append([]uint64(nil), b...)
			AES.Uint64x2s(dst, 5, a, dst)
			for i := range a {
				if want := AES.Uint64x2(5, a[i], b[i]); dst[i] != want {
					t.Errorf("%d hashes, number %d is %016x, want %016x", n, i, dst[i], want)
				}
			}
		}
	})
}
