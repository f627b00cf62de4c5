package tomlfile

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/weirswitch/weir/internal/printable"
)

// Fault is one thing wrong with a file.
type Fault struct {
	File string // empty for text without a file
	Line int    // 0 if unknown
	Key  string // full, as in port[1].queues
	Text string // what is wrong, and the remedy
}

// Error writes the fault as "FILE:LINE: KEY: TEXT", on one line.
func (f Fault) Error() string {
	var b strings.Builder
	switch {
	case f.File != "" && f.Line != 0:
		fmt.Fprintf(&b, "%s:%d: ", f.File, f.Line)
	case f.File != "":
		fmt.Fprintf(&b, "%s: ", f.File)
	case f.Line != 0:
		fmt.Fprintf(&b, "line %d: ", f.Line)
	}
	if f.Key != "" {
		b.WriteString(printable.Text(f.Key) + ": ")
	}
	b.WriteString(printable.Text(f.Text))
	return b.String()
}

// Faults collects what is wrong with one file. The zero value is for a configuration without a file.
type Faults struct {
	lines map[string]int // of each key in the file
	list  []Fault
	// malformed is how many of list are about the file's form. The value of such a key is not what the user
	// meant, so no further fault of it is reported.
	malformed int
	warnings  []Fault // of keys with former names
}

// Warnings says which keys of the file have former names, in the order of the file.
func (f *Faults) Warnings(file string) (all []string) {
	slices.SortStableFunc(f.warnings, func(a, b Fault) int { return cmp.Compare(a.Line, b.Line) })
	for _, x := range f.warnings {
		x.File = file
		all = append(all, x.Error())
	}
	return all
}

// Add reports a fault of a key. Of a file that is not valid TOML only that is reported.
func (f *Faults) Add(key, format string, args ...any) {
	if f.lines == nil && f.malformed > 0 {
		return
	}
	if !slices.ContainsFunc(f.list[:f.malformed], func(x Fault) bool { return inside(key, x.Key) }) {
		f.list = append(f.list, Fault{Line: f.Line(key), Key: key, Text: fmt.Sprintf(format, args...)})
	}
}

// ownKey is how a Validate method begins a fault: with the key inside its table.
var ownKey = regexp.MustCompile(`^([a-z0-9_]+(?:\[\d+\])*(?:\.[a-z0-9_]+(?:\[\d+\])*)*): `)

// AddAll adds the faults that a package's Validate method joined, for the table at prefix.
func (f *Faults) AddAll(prefix string, err error) {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		for _, e := range joined.Unwrap() {
			f.AddAll(prefix, e)
		}
		return
	}
	if err == nil {
		return
	}
	key := prefix
	for _, text := range strings.Split(err.Error(), "\n") {
		if m := ownKey.FindStringSubmatch(text); m != nil {
			key, text = join(prefix, m[1]), text[len(m[0]):]
		}
		f.Add(key, "%s", text)
	}
}

// Empty reports whether no fault was found.
func (f *Faults) Empty() bool { return len(f.list) == 0 }

// Has reports whether a fault of exactly this key was found.
func (f *Faults) Has(key string) bool {
	return slices.ContainsFunc(f.list, func(x Fault) bool { return x.Key == key })
}

// Under reports whether a fault of this key, or of one inside it, was found.
func (f *Faults) Under(key string) bool {
	return slices.ContainsFunc(f.list, func(x Fault) bool { return inside(x.Key, key) })
}

// inside reports whether key is outer, or a key or an element in it.
func inside(key, outer string) bool {
	rest, ok := strings.CutPrefix(key, outer)
	return ok && (rest == "" || rest[0] == '.' || rest[0] == '[')
}

// Set reports whether the file has a key.
func (f *Faults) Set(key string) bool { return f.lines[key] != 0 }

// Line is the line of a key, or of the innermost table or list around it.
func (f *Faults) Line(key string) int {
	for key != "" {
		if n, ok := f.lines[key]; ok {
			return n
		}
		key = key[:max(0, strings.LastIndexAny(key, ".["))]
	}
	return 0
}

// Err joins the faults in the order of the file; nil without a fault.
func (f *Faults) Err(file string) error {
	slices.SortStableFunc(f.list, func(a, b Fault) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Key, b.Key))
	})
	errs := make([]error, len(f.list))
	for i, x := range f.list {
		x.File = file
		errs[i] = x
	}
	return errors.Join(errs...)
}

// Suggest is the remedy for a name that does not exist: the nearest one that does, or all.
func Suggest(name string, known []string) string {
	if best, ok := Nearest(name, known); ok {
		return fmt.Sprintf("did you mean %q?", best)
	}
	if len(known) == 0 {
		return "remove it, there are none"
	}
	return "remove it, or choose from " + strings.Join(slices.Sorted(slices.Values(known)), ", ")
}

// Nearest finds the name that was probably meant; ok is false if none is near.
func Nearest(name string, known []string) (best string, ok bool) {
	least := 3 // farther than two edits is another word
	for _, k := range known {
		n := distance(name, k)
		if n == 2 && len(name) <= 4 && !sameLetters(name, k) { // "run" is not "gen"
			continue
		}
		if n < least && n < len(k) {
			best, least = k, n
		}
	}
	return best, best != ""
}

// sameLetters reports whether a is b in another order.
func sameLetters(a, b string) bool {
	return string(slices.Sorted(slices.Values([]byte(a)))) == string(slices.Sorted(slices.Values([]byte(b))))
}

// distance counts the edits of one byte that turn a into b, ignoring case
// (Wagner and Fischer, row by row).
func distance(a, b string) int {
	a, b = strings.ToLower(a), strings.ToLower(b)
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replaced := diagonal
			if a[i] != b[j] {
				replaced++
			}
			diagonal = row[j+1]
			row[j+1] = min(replaced, diagonal+1, row[j]+1)
		}
	}
	return row[len(b)]
}
