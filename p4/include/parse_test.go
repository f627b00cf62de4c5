package include_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// field is a field of a P4 header: its name and its width in bits.
type field struct {
	name  string
	width int
}

// program is what the P4 files of this folder say.
type program struct {
	numbers map[string]uint64  // constants and macros with a number
	headers map[string][]field // without those with fields of variable length
}

var (
	constText  = regexp.MustCompile(`(?m)^const \S+ (\w+) = (\w+);`)
	macroText  = regexp.MustCompile(`(?m)^#define (\w+) (\w+)$`)
	headerText = regexp.MustCompile(`(?s)\nheader (\w+) \{\n(.*?)\n\}`)
	fieldText  = regexp.MustCompile(`(?m)^ +(\S+) (\w+);`)
	typedef    = regexp.MustCompile(`(?m)^typedef bit<(\d+)> (\w+);`)
	bits       = regexp.MustCompile(`^bit<(\w+)>$`)
)

// load reads the P4 files of this folder.
func load(t *testing.T) *program {
	t.Helper()
	files, err := filepath.Glob("*.p4")
	if err != nil || len(files) == 0 {
		t.Fatalf("no P4 files here: %v", err)
	}
	var text strings.Builder
	for _, name := range files {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		text.Write(b)
	}
	p := &program{numbers: map[string]uint64{}, headers: map[string][]field{}}
	for _, kind := range []*regexp.Regexp{constText, macroText} {
		for _, m := range kind.FindAllStringSubmatch(text.String(), -1) {
			if n, err := strconv.ParseUint(m[2], 0, 64); err == nil {
				p.numbers[m[1]] = n
			}
		}
	}
	widths := map[string]int{}
	for _, m := range typedef.FindAllStringSubmatch(text.String(), -1) {
		widths[m[2]], _ = strconv.Atoi(m[1])
	}
	for _, m := range headerText.FindAllStringSubmatch(text.String(), -1) {
		var fields []field
		for _, f := range fieldText.FindAllStringSubmatch(m[2], -1) {
			width := widths[f[1]]
			if b := bits.FindStringSubmatch(f[1]); b != nil {
				if n, ok := p.numbers[b[1]]; ok {
					width = int(n)
				} else {
					width, _ = strconv.Atoi(b[1])
				}
			}
			fields = append(fields, field{f[2], width})
		}
		p.headers[m[1]] = fields
	}
	return p
}

// number is the value of a constant or macro.
func (p *program) number(t *testing.T, name string) uint64 {
	t.Helper()
	n, ok := p.numbers[name]
	if !ok {
		t.Errorf("%s: there is no such constant", name)
	}
	return n
}

// length is that of a header in bytes.
func (p *program) length(t *testing.T, name string) int {
	t.Helper()
	n := 0
	for _, f := range p.headers[name] {
		if f.width == 0 {
			t.Errorf("%s.%s has no width that is known", name, f.name)
		}
		n += f.width
	}
	if n == 0 || n%8 != 0 {
		t.Errorf("%s has %d bits", name, n)
	}
	return n / 8
}

// pack writes a header whose fields have the given values, in their order on the
// wire. Every field needs one.
func (p *program) pack(t *testing.T, name string, values map[string]uint64) []byte {
	t.Helper()
	out := make([]byte, p.length(t, name))
	at := 0
	for _, f := range p.headers[name] {
		v, ok := values[f.name]
		if !ok {
			t.Errorf("%s.%s has no value", name, f.name)
		}
		for i := f.width - 1; i >= 0; i-- {
			if i < 64 && v>>i&1 != 0 {
				out[at/8] |= 0x80 >> (at % 8)
			}
			at++
		}
	}
	return out
}
