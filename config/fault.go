package config

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Fault is one thing wrong with a configuration.
type Fault struct {
	File string // empty for text without a file
	Line int    // 0 if unknown
	Key  string // full, as in port[1].queues
	Text string // what is wrong, and the remedy
}

// Error writes the fault as "FILE:LINE: KEY: TEXT".
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
		b.WriteString(f.Key + ": ")
	}
	b.WriteString(f.Text)
	return b.String()
}

// faults collects them.
type faults struct {
	lines map[string]int // of each key that the file has
	list  []Fault
	// unread are the faults of the file's form. The value of such a key is not
	// what the user meant, so nothing more is said of it.
	unread []Fault
}

func (f *faults) add(key, format string, args ...any) {
	for _, x := range f.unread {
		if inside(key, x.Key) {
			return
		}
	}
	f.list = append(f.list, Fault{Line: f.line(key), Key: key, Text: fmt.Sprintf(format, args...)})
}

// has reports whether a fault of this very key is known.
func (f *faults) has(key string) bool {
	return slices.ContainsFunc(f.list, func(x Fault) bool { return x.Key == key })
}

// under reports whether a fault of this key, or of one inside it, is known.
func (f *faults) under(key string) bool {
	return slices.ContainsFunc(f.list, func(x Fault) bool { return inside(x.Key, key) })
}

// inside reports whether key is outer, or a key or an element in it.
func inside(key, outer string) bool {
	rest, ok := strings.CutPrefix(key, outer)
	return ok && (rest == "" || rest[0] == '.' || rest[0] == '[')
}

// line finds the line of a key, or of the innermost table or list around it.
func (f *faults) line(key string) int {
	for key != "" {
		if n, ok := f.lines[key]; ok {
			return n
		}
		key = key[:max(0, strings.LastIndexAny(key, ".["))]
	}
	return 0
}

// ownKey is how a Validate method begins a fault: with the key inside its table.
var ownKey = regexp.MustCompile(`^([a-z0-9_]+(?:\[\d+\])*(?:\.[a-z0-9_]+(?:\[\d+\])*)*): `)

// addAll adds the faults that a package's Validate method joined, for the
// table at prefix.
func (f *faults) addAll(prefix string, err error) {
	for _, e := range unjoin(err) {
		key := prefix
		for _, text := range strings.Split(e.Error(), "\n") {
			if m := ownKey.FindStringSubmatch(text); m != nil {
				key, text = join(prefix, m[1]), text[len(m[0]):]
			}
			f.add(key, "%s", text)
		}
	}
}

func unjoin(err error) []error {
	if err == nil {
		return nil
	}
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return []error{err}
	}
	var all []error
	for _, e := range joined.Unwrap() {
		all = append(all, unjoin(e)...)
	}
	return all
}

// err joins the faults, in the order of the file.
func (f *faults) err(file string) error {
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
