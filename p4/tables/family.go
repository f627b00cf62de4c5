package tables

import (
	"bytes"
	_ "embed"
	"fmt"
	"strings"

	"github.com/weirswitch/weir/telemetry/hash"
)

// A compiled program has one hash family. families are those that p4/v1model/weir.p4 can be compiled for.
var families = []programFamily{
	{hash.XX, "xxhash_seed", []string{"WEIR_XXHASH"}, ""},
	{hash.CRC, crcParameter, nil, crcCalculations},
}

// programFamily is what differs between the families' programs.
type programFamily struct {
	hash.Family
	// parameter is the name of the first parameter of set_parse: by it a compiled program says which family it has.
	parameter string
	defines   []string
	// calculations are the names that the compiler gave to the CRC-32Cs, one a line.
	calculations string
}

const crcParameter = "crc_key"

// What the compiler says of p4/v1model/weir.p4 for the family crc: names, ids, widths.
var (
	//go:embed weir.p4info.txtpb
	crcInfo []byte
	//go:embed weir.calculations
	crcCalculations string
)

// parseAction is the action whose parameter says the family.
const parseAction = parseControl + ".set_parse"

// Defines are the preprocessor names with which p4/v1model/weir.p4 is compiled for a family that it has.
func Defines(f hash.Family) []string { return programOf(f).defines }

// WeirCalculations are the CRC-32Cs of p4/v1model/weir.p4, compiled for a family.
func WeirCalculations(f hash.Family) []string { return strings.Fields(programOf(f).calculations) }

// infoOf is the P4Info of a family's program, as text: they differ by the parameter that says the family.
func infoOf(f hash.Family) []byte {
	return bytes.ReplaceAll(crcInfo, []byte(`"`+crcParameter+`"`), []byte(`"`+programOf(f).parameter+`"`))
}

// WeirInfo is the P4Info of p4/v1model/weir.p4, compiled for a family.
func WeirInfo(f hash.Family) *Info {
	i, err := ReadInfo(infoOf(f))
	if err != nil {
		panic("tables: the embedded P4Info cannot be read: " + err.Error())
	}
	return i
}

// programOf is the program of a family; the zero value if there is none.
func programOf(f hash.Family) programFamily {
	for _, p := range families {
		if p.Family == f {
			return p
		}
	}
	return programFamily{}
}

// checkFamily says what is wrong with a program whose set_parse has a first parameter of this name, for a switch
// that hashes by f.
func checkFamily(parameter string, f hash.Family) error {
	for _, p := range families {
		switch {
		case p.parameter != parameter:
		case p.Family == f:
			return nil
		default:
			return fmt.Errorf("the program hashes by %q, and the configuration says %q: use the program for that (make p4 compiles both), or set hash = %q on all switches of the network",
				p.Family, f, p.Family)
		}
	}
	return fmt.Errorf("the program does not say which hash family it has, as p4/v1model/weir.p4 of this version does: compile that anew (make p4)")
}

// familyKey is what the program adds to a message to hash it as the family's member with a seed.
func familyKey(f hash.Family, seed uint64) uint64 {
	if f == hash.XX {
		return seed
	}
	return hash.Key(seed)
}

// hasFamily says whether the program can be compiled for the switch's family.
func (b *builder) hasFamily() bool { return programOf(b.Hash).parameter != "" }

// key is the parameter of an action that is the key of a seed.
func (b *builder) key(name string, seed uint64) Param {
	return param(name, Number(familyKey(b.Hash, seed)))
}
