package config

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/weirswitch/weir/dataplane/port"
	"github.com/weirswitch/weir/internal/tomlfile"
	"github.com/weirswitch/weir/stages"
)

// ErrNotSaved is wrapped by errors of Saved about what it cannot write.
var ErrNotSaved = errors.New("this change cannot be written into the file")

// Saved returns the text of a file with what an Edit can change made as it is in another configuration, that in force:
// elements of lists of tables that came are added, those that went are removed, ports get the values of
// keys that differ, and the graph is that in force, with the tables of its stages. All else stays as it is, comments too; those directly above an element that is removed go with it. It also returns what it
// changed. The text that it returns loads to the same as the other configuration, or there is an error.
func Saved(text []byte, inForce *Config) ([]byte, []Change, error) {
	old, err := Parse(text)
	if err != nil {
		return nil, nil, err
	}
	changes := Diff(old, inForce)
	if len(changes) == 0 {
		return text, nil, nil
	}
	s := saver{text: text, lines: tomlfile.Lines(text), tables: map[string][]tomlfile.Table{}}
	all := tomlfile.Tables(text)
	for _, t := range all {
		if strings.HasSuffix(t.Key, "]") {
			list := t.Key[:strings.LastIndexByte(t.Key, '[')]
			s.tables[list] = append(s.tables[list], t)
		}
	}
	s.ports(old, inForce)
	if !slices.Equal(old.Switch.Graph, inForce.Switch.Graph) {
		if err := s.graph(all, old, inForce); err != nil {
			return nil, nil, err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(Lists())) {
		stage, list, _ := strings.Cut(name, ".")
		if old.Stages[stage] == nil || inForce.Stages[stage] == nil {
			continue
		}
		of := func(c *Config) reflect.Value { return tomlfile.Field(reflect.ValueOf(c.Stages[stage]).Elem(), list) }
		s.list("stages."+name, of(old), of(inForce))
	}
	if err := errors.Join(s.errs...); err != nil {
		return nil, nil, err
	}
	saved := s.apply()
	again, err := Parse(saved)
	if err != nil {
		return nil, nil, fmt.Errorf("%w: the file would be wrong: %w", ErrNotSaved, err)
	}
	for _, left := range Diff(again, inForce) {
		return nil, nil, fmt.Errorf("%w: %s: change the file, and reload it", ErrNotSaved, left)
	}
	return saved, changes, nil
}

// saver collects pieces of a text that become others.
type saver struct {
	text   []byte
	lines  map[string]int
	tables map[string][]tomlfile.Table // by list
	pieces []piece
	errs   []error
}

// piece is to be in place of the text from start to end.
type piece struct {
	start, end int
	text       string
}

// apply puts the pieces in. At the same place, what is inserted comes in front of what is replaced, in the order in which it was
// added: one list's last element may end where another list's first one is removed.
func (s *saver) apply() []byte {
	slices.SortStableFunc(s.pieces, func(a, b piece) int { return cmp.Or(a.start-b.start, a.end-b.end) })
	var out []byte
	at := 0
	for _, p := range s.pieces {
		out = append(out, s.text[at:p.start]...)
		if len(out) != 0 && out[len(out)-1] != '\n' {
			out = append(out, '\n')
		}
		text := p.text
		if bytes.HasSuffix(out, []byte("\n\n")) { // one empty line is enough
			text = strings.TrimPrefix(text, "\n")
		}
		out, at = append(out, text...), p.end
		if bytes.HasSuffix(out, []byte("\n\n")) && at < len(s.text) && s.text[at] == '\n' {
			at++
		}
	}
	out = append(out, s.text[at:]...)
	for bytes.HasSuffix(out, []byte("\n\n")) && !bytes.HasSuffix(s.text, []byte("\n\n")) { // of an element that was the last
		out = out[:len(out)-1]
	}
	return out
}

// elements are the tables of a list of n elements.
func (s *saver) elements(key string, n int) ([]tomlfile.Table, bool) {
	tables := s.tables[key]
	if len(tables) != n {
		s.errs = append(s.errs, fmt.Errorf("%w: %s is not written as tables [[%s]]: write it so, or change the file by hand", ErrNotSaved, key, key))
		return nil, false
	}
	return tables, true
}

// ports are known by their names; their order says nothing.
func (s *saver) ports(old, next *Config) {
	tables, ok := s.elements("port", len(old.Ports))
	if !ok {
		return
	}
	for i := range old.Ports {
		if after := next.PortNamed(old.Ports[i].Name); after == nil {
			s.remove(tables[i])
		} else {
			s.port(tables[i], &old.Ports[i], after)
		}
	}
	for i := range next.Ports {
		if old.PortNamed(next.Ports[i].Name) == nil {
			s.insert("port", tables, len(tables), reflect.ValueOf(next.Ports[i]), reflect.ValueOf(port.DefaultConfig()))
		}
	}
}

// port changes the values of a port that stays.
func (s *saver) port(t tomlfile.Table, before, after *port.Config) {
	x, y := reflect.ValueOf(before).Elem(), reflect.ValueOf(after).Elem()
	for i := range x.NumField() {
		key := tomlfile.Key(x.Type().Field(i))
		if key == "" || literal(x.Field(i)) == literal(y.Field(i)) {
			continue
		}
		s.value(t, key, literal(y.Field(i)))
	}
}

// value gives a key of a table a value.
func (s *saver) value(t tomlfile.Table, key, value string) {
	line := s.lines[t.Key+"."+key]
	if line == 0 {
		s.pieces = append(s.pieces, piece{t.Body, t.Body, key + " = " + value + "\n"})
		return
	}
	start := 0
	for range line - 1 {
		start += bytes.IndexByte(s.text[start:], '\n') + 1
	}
	end := len(s.text)
	if n := bytes.IndexByte(s.text[start:], '\n'); n >= 0 {
		end = start + n
	}
	if bytes.HasSuffix(s.text[start:end], []byte("\r")) {
		end-- // a file with the line ends of Windows keeps them
	}
	was := string(s.text[start:end])
	if !tomlfile.Whole([]byte(was)) {
		s.errs = append(s.errs, fmt.Errorf("%w: %s.%s has more than one line: write it in one, or change the file by hand", ErrNotSaved, t.Key, key))
		return
	}
	indent := was[:len(was)-len(strings.TrimLeft(was, " \t"))]
	s.pieces = append(s.pieces, piece{start, end, indent + key + " = " + value + comment(was)})
}

// graph changes the graph, takes out the tables of stages that went, and adds those of stages that came at the end, if they have more than the defaults.
func (s *saver) graph(tables []tomlfile.Table, old, next *Config) error {
	ofStage := func(t tomlfile.Table, name string) bool {
		return t.Key == "stages."+name || strings.HasPrefix(t.Key, "stages."+name+".")
	}
	for _, t := range tables {
		if t.Key == "switch" {
			s.value(t, "graph", literal(reflect.ValueOf(next.Switch.Graph)))
		}
		for _, name := range old.Switch.Graph {
			if next.Stages[name] == nil && ofStage(t, name) {
				s.remove(t)
			}
		}
	}
	var dump bytes.Buffer
	if err := next.Dump(&dump); err != nil {
		return err
	}
	for _, t := range tomlfile.Tables(dump.Bytes()) {
		for _, name := range next.Switch.Graph {
			config := reflect.ValueOf(next.Stages[name]).Elem()
			if old.Stages[name] == nil && ofStage(t, name) && literal(config) != literal(reflect.ValueOf(stages.Kinds[name].Default()).Elem()) {
				text := strings.TrimSpace(dump.String()[t.Start:t.End])
				s.pieces = append(s.pieces, piece{len(s.text), len(s.text), "\n" + text + "\n"})
			}
		}
	}
	return nil
}

// comment is that behind an assignment, with the blanks in front of it.
func comment(line string) string {
	for i := range len(line) {
		if line[i] == '#' && tomlfile.Whole([]byte(line[:i])) {
			return line[len(strings.TrimRight(line[:i], " \t")):]
		}
	}
	return ""
}

// list changes a list of tables whose order counts: elements that both have in the same order stay where they are.
func (s *saver) list(key string, old, next reflect.Value) {
	x, y := literals(old), literals(next)
	if slices.Equal(x, y) {
		return
	}
	tables, ok := s.elements(key, len(x))
	if !ok {
		return
	}
	stays := common(x, y)
	at := 0 // the old element in front of which the next one comes
	for j, i := range stays {
		if i >= 0 {
			at = i + 1
		} else {
			s.insert(key, tables, at, next.Index(j), reflect.Zero(next.Type().Elem()))
		}
	}
	kept := make([]bool, len(x))
	for _, i := range stays {
		if i >= 0 {
			kept[i] = true
		}
	}
	for i, t := range tables {
		if !kept[i] {
			s.remove(t)
		}
	}
}

// common finds elements that both lists have in the same order: for each of y its place in x, or -1. Of elements that are each in
// both lists once, it finds as many as there are (the longest increasing subsequence).
func common(x, y []string) []int {
	places := map[string][]int{}
	for i, v := range x {
		places[v] = append(places[v], i)
	}
	stays := make([]int, len(y))
	before := make([]int, len(y)) // the element in front of each in its subsequence, or -1
	var ends []int                // of the subsequences of each length, the element of y with the least place
	for j, v := range y {
		if stays[j] = -1; len(places[v]) == 0 {
			continue
		}
		stays[j], places[v] = places[v][0], places[v][1:]
		n, _ := slices.BinarySearchFunc(ends, stays[j], func(j, place int) int { return stays[j] - place })
		if before[j] = -1; n > 0 {
			before[j] = ends[n-1]
		}
		if n == len(ends) {
			ends = append(ends, j)
		} else {
			ends[n] = j
		}
	}
	kept := make([]bool, len(y))
	if len(ends) > 0 {
		for j := ends[len(ends)-1]; j >= 0; j = before[j] {
			kept[j] = true
		}
	}
	for j := range stays {
		if !kept[j] {
			stays[j] = -1
		}
	}
	return stays
}

// remove leaves comments after an empty line at the element's end: they are about what follows, or the whole file.
func (s *saver) remove(t tomlfile.Table) {
	end, commented := t.End, false
	for at := t.End; at > t.Body; {
		line := bytes.LastIndexByte(s.text[:at-1], '\n') + 1
		switch words := bytes.TrimSpace(s.text[line:at]); {
		case len(words) == 0 && commented:
			end = line
		case len(words) != 0 && words[0] == '#':
			commented = true
		case len(words) != 0:
			line = t.Body
		}
		at = line
	}
	s.pieces = append(s.pieces, piece{t.Start, end, ""})
}

// insert adds an element in front of number at of a list, with the keys whose values are not the given default ones.
func (s *saver) insert(key string, tables []tomlfile.Table, at int, element, usual reflect.Value) {
	var b strings.Builder
	fmt.Fprintf(&b, "[[%s]]\n", key)
	for i := range element.NumField() {
		if name := tomlfile.Key(element.Type().Field(i)); name != "" && literal(element.Field(i)) != literal(usual.Field(i)) {
			fmt.Fprintf(&b, "%s = %s\n", name, literal(element.Field(i)))
		}
	}
	place := len(s.text)
	switch {
	case at < len(tables):
		place = tables[at].Start
	case at > 0:
		place = tables[at-1].End
	}
	text := b.String()
	if place == len(s.text) || at == len(tables) {
		text = "\n" + text
	}
	if place < len(s.text) {
		text += "\n"
	}
	s.pieces = append(s.pieces, piece{place, place, text})
}
