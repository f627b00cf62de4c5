package tables

import (
	"errors"
	"fmt"

	p4config "github.com/p4lang/p4runtime/go/p4/config/v1"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"

	"github.com/weirswitch/weir/telemetry/hash"
)

// Info are the names and ids of a compiled program's tables, actions and registers.
type Info struct {
	tables    map[string]*p4config.Table
	actions   map[string]*p4config.Action
	registers map[string]*p4config.Register
	digests   map[string]*p4config.Digest
}

// ReadInfo reads a P4Info message, in protobuf's text or binary form.
func ReadInfo(data []byte) (*Info, error) {
	m := new(p4config.P4Info)
	if err := prototext.Unmarshal(data, m); err != nil {
		if proto.Unmarshal(data, m) != nil {
			return nil, fmt.Errorf("it is no P4Info, neither text nor binary: %w", err)
		}
	}
	if len(m.Tables) == 0 {
		return nil, errors.New("the P4Info has no table: have the compiler write it (p4c-bm2-ss --p4runtime-files FILE)")
	}
	i := &Info{
		tables: map[string]*p4config.Table{}, actions: map[string]*p4config.Action{},
		registers: map[string]*p4config.Register{}, digests: map[string]*p4config.Digest{},
	}
	for _, t := range m.Tables {
		i.tables[t.GetPreamble().GetName()] = t
	}
	for _, a := range m.Actions {
		i.actions[a.GetPreamble().GetName()] = a
	}
	for _, r := range m.Registers {
		i.registers[r.GetPreamble().GetName()] = r
	}
	for _, d := range m.Digests {
		i.digests[d.GetPreamble().GetName()] = d
	}
	return i, nil
}

var matches = map[p4config.MatchField_MatchType]Match{
	p4config.MatchField_EXACT: Exact, p4config.MatchField_LPM: LPM,
	p4config.MatchField_TERNARY: Ternary, p4config.MatchField_RANGE: Range,
}

// CheckFamily says whether the program hashes as a switch does.
func (i *Info) CheckFamily(f hash.Family) error {
	name := ""
	if a := i.actions[parseAction]; a != nil && len(a.Params) > 0 {
		name = a.Params[0].Name
	}
	return checkFamily(name, f)
}

// Check says where contents do not fit to the program: names, order, widths, sizes.
func (i *Info) Check(c *Contents) error {
	k := &checker{info: i, seen: map[string]bool{}}
	for n := range c.Defaults {
		k.action(c.Defaults[n].Table, &c.Defaults[n].Action)
	}
	entries := map[string]int{}
	for n := range c.Entries {
		k.entry(&c.Entries[n])
		entries[c.Entries[n].Table]++
	}
	for name, n := range entries {
		if t := i.tables[name]; t != nil && int64(n) > t.Size {
			k.fault("table %s has room for %d entries, not for %d", name, t.Size, n)
		}
	}
	for _, r := range c.registers() {
		d := i.registers[r.Name]
		switch {
		case d == nil:
			k.fault("the program has no register %s", r.Name)
		case int32(r.Index) >= d.Size:
			k.fault("register %s has %d cells, none of index %d", r.Name, d.Size, r.Index)
		case Number(r.Value).Bits() > int(d.GetTypeSpec().GetBitstring().GetBit().GetBitwidth()):
			k.fault("register %s: %#x is too wide for its cells", r.Name, r.Value)
		}
	}
	for _, d := range c.Digests {
		if i.digests[d.Name] == nil {
			k.fault("the program has no digest %s", d.Name)
		}
	}
	return errors.Join(k.faults...)
}

// checker collects what does not fit, each fault once.
type checker struct {
	info   *Info
	seen   map[string]bool
	faults []error
}

func (k *checker) fault(format string, args ...any) {
	if text := fmt.Sprintf(format, args...); !k.seen[text] {
		k.seen[text] = true
		k.faults = append(k.faults, errors.New(text))
	}
}

func (k *checker) entry(e *Entry) {
	t := k.action(e.Table, &e.Action)
	if t == nil {
		return
	}
	if len(e.Keys) != len(t.MatchFields) {
		k.fault("table %s has %d keys, not %d", e.Table, len(t.MatchFields), len(e.Keys))
		return
	}
	prioritised := false
	for n, f := range t.MatchFields {
		key := &e.Keys[n]
		prioritised = prioritised || key.Match == Ternary || key.Match == Range
		switch {
		case f.Name != key.Field:
			k.fault("table %s: key %d is %s, not %s", e.Table, n+1, f.Name, key.Field)
		case matches[f.GetMatchType()] != key.Match || f.GetMatchType() == p4config.MatchField_UNSPECIFIED:
			k.fault("table %s: key %s is compared by %v", e.Table, f.Name, f.GetMatchType())
		case max(key.Value.Bits(), key.Mask.Bits(), key.High.Bits(), key.Prefix) > int(f.Bitwidth):
			k.fault("table %s: %v is too wide for key %s of %d bits", e.Table, key.Value, f.Name, f.Bitwidth)
		}
	}
	if prioritised != (e.Priority > 0) {
		k.fault("table %s: an entry has priority %d", e.Table, e.Priority)
	}
}

// action checks a table's name and an action of it, and returns the table.
func (k *checker) action(table string, a *Action) *p4config.Table {
	t := k.info.tables[table]
	if t == nil {
		k.fault("the program has no table %s", table)
		return nil
	}
	d := k.info.actions[a.Name]
	has := false
	for _, r := range t.ActionRefs {
		has = has || d != nil && r.Id == d.Preamble.Id
	}
	if !has {
		k.fault("table %s has no action %s", table, a.Name)
		return t
	}
	if len(d.Params) != len(a.Params) {
		k.fault("action %s has %d parameters, not %d", a.Name, len(d.Params), len(a.Params))
		return t
	}
	for n, p := range d.Params {
		switch {
		case p.Name != a.Params[n].Name:
			k.fault("action %s: parameter %d is %s, not %s", a.Name, n+1, p.Name, a.Params[n].Name)
		case a.Params[n].Value.Bits() > int(p.Bitwidth):
			k.fault("action %s: %v is too wide for %s of %d bits", a.Name, a.Params[n].Value, p.Name, p.Bitwidth)
		}
	}
	return t
}
