package plan

import (
	"bytes"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/weirswitch/weir/telemetry/pint"
	"github.com/weirswitch/weir/telemetry/pint/encode"
)

// TestQueriesOfEveryKind: all values of table 1 and all aggregations can be asked
// for in a few lines, and the plan's file says the same as the plan.
func TestQueriesOfEveryKind(t *testing.T) {
	static := []pint.Value{pint.SwitchID, pint.IngressPort, pint.EgressPort}
	for a := range pint.Checksum + 1 {
		for v := range pint.QueueCongestion + 1 {
			text := fmt.Sprintf("[[query]]\nname = \"q\"\nvalue = %q\naggregation = %q\nbits = 8\n", v, a)
			want := true
			switch a {
			case pint.Path, pint.Checksum:
				want = slices.Contains(static, v)
			case pint.Loop:
				text += "threshold = 1\n"
				want = v == pint.SwitchID
			case pint.Sum:
				text += "[query.numeric]\nmax = 1000000\n"
			case pint.SlowHops:
				text += "[query.numeric]\nslow = 1000\n"
			case pint.Product:
				text += "[query.numeric]\nmin = 1000\nmax = 1000000\n"
			}
			queries, err := ReadQueries(strings.NewReader(text))
			if err != nil {
				t.Fatalf("%v %v: %v", a, v, err)
			}
			p, err := New(Config{ID: 5, Seed: 1, Bits: 8, Queries: queries})
			if (err == nil) != want {
				t.Errorf("%v of %v: %v", a, v, err)
			}
			if err != nil {
				continue
			}
			var file bytes.Buffer
			if err := p.Write(&file); err != nil {
				t.Fatal(err)
			}
			if again, err := Read(&file); err != nil || !reflect.DeepEqual(again, p) {
				t.Errorf("%v of %v: %v\n%+v\n%+v", a, v, err, again, p)
			}
		}
	}
}

func TestQuerySchemes(t *testing.T) {
	read := func(static string) ([]pint.Query, error) {
		return ReadQueries(strings.NewReader("[[query]]\nname = \"path\"\nvalue = \"switch_id\"\naggregation = \"path\"\nbits = 8\n" + static))
	}
	for _, c := range []struct {
		static string
		code   pint.ValueCode
		bits   int
		layers []pint.Layer
		fault  string
	}{
		{"", pint.Linear, 10, encode.XOR(1), ""},
		{"[query.static]\ncode = \"linear\"\nvalue_bits = 20", pint.Linear, 20, encode.XOR(1), ""},
		{"[query.static]\ncode = \"fragmented\"\nvalue_bits = 32\nscheme = \"dense\"", pint.Fragmented, 32, encode.XOR(0.5), ""},
		{"[query.static]\ncode = \"hashed\"\nscheme = \"hybrid\"\nhops = 25", pint.Hashed, 0, encode.Hybrid(25), ""},
		{"[query.static]\ncode = \"hashed\"\nscheme = \"multilayer\"\nhops = 25", pint.Hashed, 0, encode.MultiLayer(25), ""},
		{"[query.static]\ncode = \"hashed\"\nscheme = \"multilayer_revised\"\nhops = 25", pint.Hashed, 0, encode.MultiLayerRevised(25), ""},
		{"[query.static]\ncode = \"hashed\"\nscheme = \"baseline\"", pint.Hashed, 0, encode.Baseline(), ""},
		{"[query.static]\ncode = \"hashed\"\nscheme = \"xor\"\nhops = 4", pint.Hashed, 0, encode.XOR(0.25), ""},
		{"[query.static]\ncode = \"hashed\"\n[[query.static.layer]]\nshare = 1.0", pint.Hashed, 0, encode.Baseline(), ""},
		{"[query.static]\nscheme = \"hybrid\"", 0, 0, nil, "static.hops 0"},
		{"[query.static]\nscheme = \"hybrid\"\nhops = 256", 0, 0, nil, "static.hops 256"},
		{"[query.static]\nscheme = \"dense\"\nhops = 3", 0, 0, nil, "leave it out"},
		{"[query.static]\nscheme = \"best\"", 0, 0, nil, `static.scheme "best": use one of ["dense"`},
		{"[query.static]\nscheme = \"baseline\"\n[[query.static.layer]]\nshare = 1.0", 0, 0, nil, "give one of them"},
		{"[query.static]\nlayers = 3", 0, 0, nil, `query[0].static.layers: there is no such key: did you mean "layer"?`},
		{"nonsense = 1\nmore = 2", 0, 0, nil, "line 6: query[0].nonsense: there is no such key"},
		{"code = ", 0, 0, nil, "line 6: query[0].code: not valid TOML"},
	} {
		q, err := read(c.static)
		if c.fault != "" {
			if err == nil || !strings.Contains(err.Error(), c.fault) {
				t.Errorf("%s: %v, want %q", c.static, err, c.fault)
			}
			continue
		}
		if err != nil || len(q) != 1 || q[0].Frequency != 1 || q[0].Static.Code != c.code || q[0].Static.ValueBits != c.bits || !slices.Equal(q[0].Static.Layers, c.layers) {
			t.Errorf("%s: %v, %+v", c.static, err, q)
			continue
		}
		if _, err := New(Config{ID: 1, Bits: 8, Queries: q}); err != nil {
			t.Errorf("%s: %v", c.static, err)
		}
	}
	if q, err := ReadQueries(strings.NewReader("")); err != nil || q != nil {
		t.Errorf("an empty file: %v, %v", q, err)
	}
	if _, err := ReadQueries(strings.NewReader(strings.Repeat("#", maxPlanBytes+1))); err == nil {
		t.Error("a file without end was read")
	}
}

func FuzzReadQueries(f *testing.F) {
	f.Add("[[query]]\nname = \"path\"\nvalue = \"switch_id\"\naggregation = \"path\"\nbits = 8\n[query.static]\nscheme = \"hybrid\"\nhops = 25\n")
	f.Add("[[query]]\nname = \"s\"\nvalue = \"hop_latency\"\naggregation = \"sum\"\nbits = 8\nfrequency = 0.5\n[query.numeric]\nmax = 9223372036854775807\n")
	f.Fuzz(func(t *testing.T, text string) {
		queries, err := ReadQueries(strings.NewReader(text))
		if err != nil || len(queries) > 3 {
			return
		}
		if p, err := New(Config{ID: 1, Bits: 24, Queries: queries}); err == nil {
			if _, err := p.Compile(); err != nil {
				t.Errorf("a plan that does not compile: %v", err)
			}
		}
	})
}
