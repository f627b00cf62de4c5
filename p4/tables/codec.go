package tables

import (
	"math/bits"

	"github.com/weirswitch/weir/telemetry/pint/encode"
)

// codec fills the tables of the control pint_codec, whose instance has the given
// name, for a multiplicative code.
func (b *builder) codec(instance string, t encode.CodecTable) {
	whole, part := instance+".whole", instance+".part"
	for zeros := range 65 {
		key := Key{Field: "value", Match: LPM, Prefix: 64}
		shift := 0 // the value 0 has no leading one
		if zeros < 64 {
			key.Value, key.Prefix, shift = Number(1<<(63-zeros)), zeros+1, zeros
		}
		b.entry(whole, act(instance+".whole_of",
			param("logarithm", Number(uint64(t.Whole[64-zeros]))), param("zeros", Number(uint64(shift)))), key)
	}
	q := bits.Len(uint(len(t.Part))) - 1
	for i, logarithm := range t.Part {
		b.entry(part, act(instance+".part_of", param("logarithm", Number(uint64(logarithm)))),
			Key{Field: "fraction", Match: LPM, Value: Number(uint64(i) << (codePartBits - q)), Prefix: q})
	}
}

// entry adds an entry without priority.
func (b *builder) entry(table string, a Action, keys ...Key) {
	b.out.Entries = append(b.out.Entries, Entry{Table: table, Keys: keys, Action: a})
}

// byDefault sets a table's default action.
func (b *builder) byDefault(table string, a Action) {
	b.out.Defaults = append(b.out.Defaults, Default{table, a})
}

// register sets one cell.
func (b *builder) register(name string, index int, value uint64) {
	b.out.Registers = append(b.out.Registers, Register{name, index, value})
}
