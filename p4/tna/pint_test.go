package tna_test

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/weirswitch/weir/telemetry/hash"
)

var polynomials = [2]*crc32.Table{crc32.IEEETable, crc32.MakeTable(crc32.Castagnoli)}

// crcs is the first round of a message of words.
func crcs(words ...uint64) (sums [2]uint32) {
	var m []byte
	for _, w := range words {
		m = binary.LittleEndian.AppendUint64(m, w)
	}
	for i, table := range polynomials {
		sums[i] = crc32.Checksum(m, table)
	}
	return sums
}

// TestSwitchConstant proves what pint.p4 says of the first round of (switch, id): it is that
// of id and a constant of the switch, which control planes write as they do here.
func TestSwitchConstant(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	for range 1000 {
		id, of, seed := r.Uint64(), uint64(r.Uint32()), r.Uint64()
		first, with, without := crcs(id), crcs(of, 0), crcs(0)
		key := hash.Key(seed)
		v := (first[1] ^ with[1] ^ without[1]) + uint32(key)
		u := (first[0] ^ with[0] ^ without[0]) + uint32(key>>32) + v
		second := binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, u), v)
		got := uint64(crc32.Checksum(second, polynomials[0]))<<32 | uint64(crc32.Checksum(second, polynomials[1]))
		if want := hash.CRC.Uint64x2(seed, of, id); got != want {
			t.Fatalf("switch %d, id %x: %x, want %x", of, id, got, want)
		}
	}
}

// TestSumsAreMixed holds the second rounds against the definition of the family: they
// are of u and v, to which v was added.
func TestSumsAreMixed(t *testing.T) {
	files, err := filepath.Glob("include/*.p4")
	if err != nil {
		t.Fatal(err)
	}
	rounds := 0
	for _, file := range append(files, "weir.p4") {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`\.get\(\{ (?:\w+, )?([\w.]*u), ([\w.]*v) \}\)`).FindAllStringSubmatch(string(text), -1) {
			rounds++
			if !strings.Contains(string(text), fmt.Sprintf(" %[1]s = %[1]s + %[2]s;", m[1], m[2])) {
				t.Errorf("%s: a CRC of %s and %s, but the one is never added to the other", file, m[1], m[2])
			}
		}
	}
	if rounds < 20 {
		t.Errorf("%d second rounds found: the pattern is another", rounds)
	}
}
