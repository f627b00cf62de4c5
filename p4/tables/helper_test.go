package tables

import (
	"hash/crc32"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirswitch/weir/config"
	"github.com/weirswitch/weir/pipeline"
	"github.com/weirswitch/weir/telemetry/hash"
)

// load reads a configuration of testdata.
func load(t *testing.T, name string) *Switch {
	t.Helper()
	return read(t, readFile(t, "testdata/"+name))
}

func readFile(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// eachFamily runs a test with a configuration of testdata as it is, and with its plan, for the family xxhash.
func eachFamily(t *testing.T, name string, test func(t *testing.T, s *Switch)) {
	t.Run("crc", func(t *testing.T) { test(t, load(t, name)) })
	t.Run("xxhash", func(t *testing.T) {
		text := ofXXHash(t, readFile(t, "testdata/"+name))
		if _, rest, ok := strings.Cut(text, `plan = "`); ok {
			plan, _, _ := strings.Cut(rest, `"`)
			text = strings.ReplaceAll(text, plan, planOfXXHash(t, plan))
		}
		test(t, read(t, text))
	})
}

// planOfXXHash is a file with a plan for the family xxhash.
func planOfXXHash(t *testing.T, plan string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), filepath.Base(plan))
	if err := os.WriteFile(path, []byte(ofXXHash(t, readFile(t, plan))), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func ofXXHash(t *testing.T, text string) string {
	t.Helper()
	changed := strings.Replace(text, `hash = "crc"`, `hash = "xxhash"`, 1)
	if changed == text {
		t.Fatal("the text has no hash")
	}
	return changed
}

func read(t *testing.T, text string) *Switch {
	t.Helper()
	c, err := config.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	s := &Switch{ID: c.Switch.ID, Hash: c.Switch.Hash, Graph: c.Switch.Graph, Stages: c.Stages}
	for i := range c.Ports {
		s.Ports = append(s.Ports, pipeline.Port{Name: c.Ports[i].Name})
	}
	return s
}

// options are those of all tests: a time in the middle of an epoch.
var options = Options{CPUPort: 510, Now: 1_800_000_000_123_456_789}

func build(t *testing.T, s *Switch) *target {
	t.Helper()
	c, err := Build(s, options)
	if err != nil {
		t.Fatal(err)
	}
	return newTarget(c, s.Hash)
}

// target looks contents up as a P4 switch does. It knows none of Weir's code but these
// tables, so that what is computed by it is what the program computes.
type target struct {
	*Contents
	family    hash.Family
	tables    map[string][]*Entry
	exact     map[string]map[string]*Entry    // of tables with exact keys alone
	prefixes  map[string]map[[2]uint64]*Entry // of tables with one LPM key: by length and the prefix
	defaults  map[string]*Action
	registers map[string]map[int]uint64
}

func newTarget(c *Contents, f hash.Family) *target {
	t := &target{Contents: c, family: f, tables: map[string][]*Entry{}, exact: map[string]map[string]*Entry{}, prefixes: map[string]map[[2]uint64]*Entry{},
		defaults: map[string]*Action{}, registers: map[string]map[int]uint64{}}
	for i := range c.Entries {
		e := &c.Entries[i]
		t.tables[e.Table] = append(t.tables[e.Table], e)
		name, isExact := "", true
		for _, k := range e.Keys {
			name += k.Value.String() + " "
			isExact = isExact && k.Match == Exact
		}
		if isExact {
			if t.exact[e.Table] == nil {
				t.exact[e.Table] = map[string]*Entry{}
			}
			t.exact[e.Table][name] = e
		}
		if k := e.Keys[0]; k.Match == LPM && widths[k.Field] != 0 {
			if t.prefixes[e.Table] == nil {
				t.prefixes[e.Table] = map[[2]uint64]*Entry{}
			}
			t.prefixes[e.Table][prefix(k, k.Value.Low, k.Prefix)] = e
		}
	}
	for i := range c.Defaults {
		t.defaults[c.Defaults[i].Table] = &c.Defaults[i].Action
	}
	for _, r := range c.registers() {
		if t.registers[r.Name] == nil {
			t.registers[r.Name] = map[int]uint64{}
		}
		t.registers[r.Name][r.Index] = r.Value
	}
	return t
}

// params are an action's, by name; "" has 1 if there was an action at all.
type params map[string]uint64

// apply looks keys up, and returns what the best entry, or the default action, gives.
func (t *target) apply(table string, keys ...uint64) (action string, p params) {
	best := t.defaults[table]
	if exact := t.exact[table]; exact != nil {
		name := ""
		for _, k := range keys {
			name += Number(k).String() + " "
		}
		if e := exact[name]; e != nil {
			best = &e.Action
		}
	} else if prefixes := t.prefixes[table]; prefixes != nil {
		field := t.tables[table][0].Keys[0]
		for length := widths[field.Field]; length >= 0; length-- {
			if e := prefixes[prefix(field, keys[0], length)]; e != nil {
				best = &e.Action
				break
			}
		}
	} else {
		first := 1 << 31
		for _, e := range t.tables[table] {
			if e.Priority < first && e.matches(keys) {
				first, best = e.Priority, &e.Action
			}
		}
	}
	p = params{}
	if best == nil {
		return "", p
	}
	for _, x := range best.Params {
		p[x.Name] = x.Value.Low
	}
	return best.Name, p
}

// widths are the bits of fields that are compared by prefixes, but for IPv6 addresses,
// which no test looks up.
var widths = map[string]int{"value": 64, "fraction": 16, "hdr.ipv4.dst": 32}

// prefix is a length, and so many first bits of a value of the field's width.
func prefix(k Key, v uint64, length int) [2]uint64 {
	return [2]uint64{uint64(length), v >> (widths[k.Field] - length)}
}

// matches compares what has no prefix.
func (e *Entry) matches(keys []uint64) (ok bool) {
	for i, k := range e.Keys {
		v := keys[i]
		switch k.Match {
		case Exact:
			ok = v == k.Value.Low
		case Ternary:
			ok = v&k.Mask.Low == k.Value.Low
		case Range:
			ok = k.Value.Low <= v && v <= k.High.Low
		}
		if !ok {
			return false
		}
	}
	return true
}

// A hash as p4/v1model/hash.p4 has it.
type hashed struct{ a, b uint32 }

// whole are both halves, and turned both the other way round.
func (h hashed) whole() uint64  { return uint64(h.a)<<32 | uint64(h.b) }
func (h hashed) turned() uint64 { return uint64(h.b)<<32 | uint64(h.a) }

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// little is a number of n bytes with its least significant byte first.
func little(v uint64, n int) (b []byte) {
	for range n {
		b = append(b, byte(v))
		v >>= 8
	}
	return b
}

// hash is that of the program: of crc by the standard library's CRCs, of xxhash by the library's XXH64 of bytes.
func (t *target) hash(key uint64, message ...[]byte) hashed {
	var m []byte
	for _, part := range message {
		m = append(m, part...)
	}
	if t.family == hash.XX {
		h := hash.Bytes(key, m)
		return hashed{uint32(h >> 32), uint32(h)}
	}
	v := crc32.Checksum(m, castagnoli) + uint32(key)
	u := crc32.ChecksumIEEE(m) + uint32(key>>32) + v
	joined := []byte{byte(u >> 24), byte(u >> 16), byte(u >> 8), byte(u), byte(v >> 24), byte(v >> 16), byte(v >> 8), byte(v)}
	return hashed{crc32.ChecksumIEEE(joined), crc32.Checksum(joined, castagnoli)}
}
