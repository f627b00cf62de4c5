package vectors

import (
	"maps"
	"math/bits"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// unseen are numbers of P4 that stay 0 in every run, and why.
var unseen = map[string]string{
	"REASON_NO_PORT":               "a graph has one stage that forwards, and each of the three gives a port or a reason",
	"REASON_NEIGHBOUR_UNREACHABLE": "P4 sends packets to such a neighbour to the control plane, reason consumed",
	"REASON_PINT_LOOP":             "plans with loop queries are refused",
	"LEFT_ROOM":                    "BMv2 has no frames, so it lacks no headroom",
	"LEFT_OWN":                     "P4 sends no packets of its own, and the id of others is 0 once in 2^64",
	"LEFT_LOOPING":                 "plans with loop queries are refused",
	"LOOPS_FOUND":                  "plans with loop queries are refused",
	"RING_FULL":                    "a record is a copy at the CPU port: there is no ring to the recorder",
}

// uncompared are registers and counters of P4 that no comparison reads, and why.
var uncompared = map[string]string{
	"tai_offset":      "programs with given times have none",
	"schedule_epoch":  "written by the control plane: Write",
	"schedule_log":    "written by the control plane: Write",
	"schedule_flip":   "written by the control plane: Write",
	"schedule_key":    "written by the control plane: Write",
	"cell_key":        "written by the control plane: Write",
	"epoch":           "written by the control plane: Write",
	"threshold":       "written by the control plane: Write",
	"logarithm":       "a table of the control plane, which used follows from",
	"exponential":     "a table of the control plane, which used follows from",
	"ingress_dropped": "compared with egress_dropped, added up: " + reasonCounter,
	"egress_dropped":  "compared with ingress_dropped, added up: " + reasonCounter,
}

// TestVectorsCover: the vectors together have each fault of a header, each reason for dropping, each count of pint
// and each kind of message that P4 knows, but for those that are listed with why they cannot occur; and each
// register of P4 is compared, and not 0 everywhere.
func TestVectorsCover(t *testing.T) {
	sums := State{}
	var kinds [8]uint64 // by bit
	for _, f := range vectorFiles(t) {
		v, err := ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		for name, cells := range v.State {
			for i, n := range cells {
				if n != 0 {
					sums.add(name, len(cells), i, 1)
				}
			}
			sums.add(name, len(cells), 0, 0)
		}
		for _, r := range v.Results {
			for _, m := range r.Messages {
				for bit := range kinds {
					kinds[bit] += uint64(m.Kind) >> bit & 1
				}
			}
		}
	}
	sources := sources(t)
	occurs := map[string]bool{}
	for _, numbers := range []struct {
		of    *regexp.Regexp
		least int
		seen  func(n int) bool
	}{
		{regexp.MustCompile(`(?m)^#define (FAULT_\w+) 8w(\d+)`), numFaults - 1, func(n int) bool { return nonzero(sums[faultCounter], n) }},
		{regexp.MustCompile(`(?m)^#define (REASON_\w+) 8w(\d+)`), 20, func(n int) bool { return nonzero(sums[reasonCounter], n) }},
		{regexp.MustCompile(`(?m)^#define (\w+) 32w(\d+)`), len(pintCounts), func(n int) bool { return nonzero(sums[pintCounter], n) }},
		{regexp.MustCompile(`(?m)^#define (CPU_\w+) 8w(\d+)`), 3, func(n int) bool { return nonzero(kinds[:], bits.TrailingZeros8(uint8(n))) }},
	} {
		all := numbers.of.FindAllStringSubmatch(sources, -1)
		if len(all) < numbers.least {
			t.Errorf("%v finds %d names in the sources, want %d at least", numbers.of, len(all), numbers.least)
		}
		for _, m := range all {
			n, err := strconv.Atoi(m[2])
			if err != nil {
				t.Fatal(err)
			}
			occurs[m[1]] = numbers.seen(n)
		}
	}
	compareNames(t, "is 0 in all vectors", occurs, unseen)

	// Registers and counters, by their last names, as sources have them.
	last := map[string]bool{}
	for name, cells := range sums {
		name = name[strings.LastIndex(name, ".")+1:]
		last[name] = last[name] || slices.ContainsFunc(cells, func(n uint64) bool { return n != 0 })
	}
	compared := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^ +(?:register<.*>|counter)\(.*\) (\w+);`).FindAllStringSubmatch(sources, -1) {
		whole := strings.TrimSuffix(strings.TrimSuffix(m[1], "_high"), "_low") // numbers in halves
		compared[m[1]] = last[whole]
	}
	if len(compared) < 20 {
		t.Errorf("%d registers in the sources", len(compared))
	}
	compareNames(t, "is not compared, or 0 in all vectors", compared, uncompared)
}

// nonzero says whether there is a cell n and it is not 0.
func nonzero(cells []uint64, n int) bool { return n < len(cells) && cells[n] != 0 }

// compareNames fails the test with names that are false and not listed, and with such as are listed and true, or
// not there.
func compareNames(t *testing.T, what string, names map[string]bool, listed map[string]string) {
	t.Helper()
	for _, name := range slices.Sorted(maps.Keys(names)) {
		switch why, ok := listed[name]; {
		case !names[name] && !ok:
			t.Errorf("%s %s", name, what)
		case names[name] && ok:
			t.Errorf("%s occurs: it is listed as %q", name, why)
		}
	}
	for name := range listed {
		if _, ok := names[name]; !ok {
			t.Errorf("%s is listed: the programs have it no more", name)
		}
	}
}

// sources is the text of all P4 sources of the program.
func sources(t *testing.T) string {
	t.Helper()
	var all strings.Builder
	eachSource(t, func(_ string, text []byte) { _, _ = all.Write(text) })
	return all.String()
}
