package bmv2

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
)

// Program is what has to be known of a compiled program to configure it.
type Program struct {
	tables    map[string]*table
	numbers   map[int]string // names of tables
	actions   map[int]*action
	registers map[string]*RegisterArray
	counters  map[string]int  // sizes
	custom    map[string]bool // calculations whose CRC32 can be set
	digests   []int           // numbers of its digests
}

type table struct {
	name     string
	priority bool // ternary and range matches need one
	keys     []key
	actions  map[string]*action
}

// key is one field that a table matches.
type key struct {
	match string // exact, lpm, ternary, range, valid
	bits  int
}

type action struct {
	name string
	bits []int // of the parameters
}

// RegisterArray is a register of a program: Size cells of Bits bits.
type RegisterArray struct {
	Name       string
	Bits, Size int
}

// file is what this package reads of BMv2's JSON format 2.x.
type file struct {
	HeaderTypes []struct {
		Name   string              `json:"name"`
		Fields [][]json.RawMessage `json:"fields"`
	} `json:"header_types"`
	Headers []struct {
		Name string `json:"name"`
		Type string `json:"header_type"`
	} `json:"headers"`
	Actions []struct {
		Name    string `json:"name"`
		ID      int    `json:"id"`
		Runtime []struct {
			Bits int `json:"bitwidth"`
		} `json:"runtime_data"`
	} `json:"actions"`
	Pipelines []struct {
		Tables []struct {
			Name  string `json:"name"`
			ID    int    `json:"id"`
			Match string `json:"match_type"`
			Key   []struct {
				Match  string          `json:"match_type"`
				Target json.RawMessage `json:"target"`
			} `json:"key"`
			ActionIDs []int    `json:"action_ids"`
			Actions   []string `json:"actions"`
		} `json:"tables"`
	} `json:"pipelines"`
	Registers []struct {
		Name string `json:"name"`
		Bits int    `json:"bitwidth"`
		Size int    `json:"size"`
	} `json:"register_arrays"`
	Counters []struct {
		Name string `json:"name"`
		Size int    `json:"size"`
	} `json:"counter_arrays"`
	Calculations []struct {
		Name string `json:"name"`
		Algo string `json:"algo"`
	} `json:"calculations"`
	Digests []struct {
		ID int `json:"id"`
	} `json:"learn_lists"`
}

// loadProgram reads a compiled program.
func loadProgram(path string) (*Program, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read a compiled program: %w", err)
	}
	p, err := parseProgram(text)
	if err != nil {
		return nil, fmt.Errorf("read the compiled program %s: %w", path, err)
	}
	return p, nil
}

func parseProgram(text []byte) (*Program, error) {
	var f file
	if err := json.Unmarshal(text, &f); err != nil {
		return nil, err
	}
	p := &Program{
		tables: map[string]*table{}, numbers: map[int]string{}, actions: map[int]*action{},
		registers: map[string]*RegisterArray{}, counters: map[string]int{}, custom: map[string]bool{},
	}
	for _, a := range f.Actions {
		act := &action{name: a.Name}
		for _, r := range a.Runtime {
			act.bits = append(act.bits, r.Bits)
		}
		p.actions[a.ID] = act
	}
	widths, err := f.widths()
	if err != nil {
		return nil, err
	}
	for _, pipe := range f.Pipelines {
		for _, t := range pipe.Tables {
			tab := &table{name: t.Name, priority: t.Match == "ternary" || t.Match == "range", actions: map[string]*action{}}
			for _, id := range t.ActionIDs {
				act := p.actions[id]
				if act == nil {
					return nil, fmt.Errorf("table %s has the action %d, which is not there", t.Name, id)
				}
				tab.actions[act.name] = act
			}
			for _, k := range t.Key {
				bits, err := keyBits(k.Target, k.Match, widths)
				if err != nil {
					return nil, fmt.Errorf("table %s: %w", t.Name, err)
				}
				tab.keys = append(tab.keys, key{k.Match, bits})
			}
			p.tables[t.Name], p.numbers[t.ID] = tab, t.Name
		}
	}
	for _, r := range f.Registers {
		p.registers[r.Name] = &RegisterArray{r.Name, r.Bits, r.Size}
	}
	for _, c := range f.Counters {
		p.counters[c.Name] = c.Size
	}
	for _, c := range f.Calculations {
		if c.Algo == "crc32_custom" {
			p.custom[c.Name] = true
		}
	}
	for _, d := range f.Digests {
		p.digests = append(p.digests, d.ID)
	}
	return p, nil
}

// widths are the bits of all headers' fields, by "header.field".
func (f *file) widths() (map[string]int, error) {
	types := map[string]map[string]int{}
	for _, t := range f.HeaderTypes {
		fields := map[string]int{}
		for _, raw := range t.Fields {
			var name string
			var bits int
			if len(raw) < 2 || json.Unmarshal(raw[0], &name) != nil {
				return nil, fmt.Errorf("header type %s has a field without name and width", t.Name)
			}
			if json.Unmarshal(raw[1], &bits) != nil {
				continue // of variable length: no table matches it
			}
			fields[name] = bits
		}
		types[t.Name] = fields
	}
	widths := map[string]int{}
	for _, h := range f.Headers {
		for name, bits := range types[h.Type] {
			widths[h.Name+"."+name] = bits
		}
	}
	return widths, nil
}

func keyBits(target json.RawMessage, match string, widths map[string]int) (int, error) {
	if match == "valid" {
		return 1, nil
	}
	var names []string
	if err := json.Unmarshal(target, &names); err != nil {
		return 0, fmt.Errorf("a key's target is %s: %w", target, err)
	}
	if len(names) == 2 && names[1] == "$valid$" {
		return 1, nil
	}
	name := strings.Join(names, ".")
	bits, ok := widths[name]
	if !ok {
		return 0, fmt.Errorf("the key %s is of no header", name)
	}
	return bits, nil
}

// Registers lists the program's registers by name.
func (p *Program) Registers() map[string]*RegisterArray { return p.registers }

// CustomCRC32 lists the names of the program's calculations by crc32_custom, sorted: before the first
// packet each one needs its parameters. The names are the compiler's.
func (p *Program) CustomCRC32() []string { return slices.Sorted(maps.Keys(p.custom)) }

// resolve finds an entry by its name, or by the end of its name behind a dot if that is
// of one entry alone, as the command line of BMv2 has it.
func resolve[T any](what, name string, all map[string]T) (T, error) {
	if v, ok := all[name]; ok {
		return v, nil
	}
	var found T
	n := 0
	for full, v := range all {
		if strings.HasSuffix(full, "."+name) {
			found = v
			n++
		}
	}
	switch n {
	case 0:
		return found, fmt.Errorf("the program has no %s %q", what, name)
	case 1:
		return found, nil
	}
	return found, fmt.Errorf("the program has %d %ss whose names end in %q: write the whole name", n, what, name)
}
