package encode

import (
	"math/bits"

	"github.com/weirswitch/weir/telemetry/pint"
)

// What follows are the tables of a plan as a P4 target gets them: the very
// numbers that the Encoder decides by, so that it cannot decide otherwise. They
// are to be read only.

// TableSet is a set of queries: the steps that packets of the set get, in the
// order of their places in the digest.
type TableSet struct {
	// Below is the set's threshold, at most 2^32: of q, the upper 32 bits of
	// the hash of a packet's id under the seed Set, it has what is below and is not
	// below that of the set before. Packets of no set have none.
	Below uint64
	Steps []TableStep
}

// TableStep is a query on the packets of a set.
type TableStep struct {
	Query *pint.Query
	// Shift is the place of the query's digest in the packet's, in bits.
	Shift int
	// Path is set for aggregation Path with hashed values, one instance and
	// at most two layers.
	Path *TablePath
	// Codec is set for numeric values.
	Codec *Codec
}

// TablePath is the encoding of a path.
type TablePath struct {
	// ValueSeed is that of h(value, packet id).
	ValueSeed uint64
	// UpTo: the packet is of layer 0 if its hash q, turned by 32 bits, is at most
	// this, else of layer 1.
	UpTo   uint64
	Layers []TableLayer
}

// TableLayer is one way of writing.
type TableLayer struct {
	// Overwrites: a hop that writes overwrites the digest, else it xors.
	Overwrites bool
	// Accept: hop i writes if g(packet, i) is at most Accept[i].
	Accept [pint.MaxHops + 1]uint64
}

// Seeds are those of the two hashes that all queries share.
func (e *Encoder) Seeds() SharedSeeds { return e.seeds }

// Reservoir are the thresholds of samples: hop i overwrites a sampled code if
// g(packet, i), turned by 32 bits, is at most Reservoir()[i].
func (e *Encoder) Reservoir() [pint.MaxHops + 1]uint64 { return reservoirAccept[e.family] }

// TableSets are the plan's sets of queries.
func (e *Encoder) TableSets() []TableSet {
	sets := make([]TableSet, len(e.below))
	for i := range sets {
		sets[i].Below = e.below[i]
		for j := range e.sets[i] {
			s := &e.sets[i][j]
			sets[i].Steps = append(sets[i].Steps, TableStep{Query: s.Query, Shift: int(s.Shift), Path: s.tablePath(), Codec: s.Codec})
		}
	}
	return sets
}

// tablePath is nil for what is no path, or one that is not so simple.
func (s *Step) tablePath() *TablePath {
	if s.kind != stepHashed {
		return nil
	}
	t := &TablePath{ValueSeed: s.path.seeds.value, UpTo: s.path.upTo}
	for i := range s.Static.layers {
		t.Layers = append(t.Layers, TableLayer{
			Overwrites: s.path.layers[i].keep == 0, Accept: s.path.layers[i].accept,
		})
	}
	return t
}

// Multiplicative reports whether codes are logarithms.
func (k *Codec) Multiplicative() bool { return k.multiplicative }

// Whole is the part of a multiplicative code that the length of a value in bits
// gives, 0 to 64, in units of 1/RoundOne of a code:
//
//	code = (Whole(n) + Part(the bits behind the leading one) + round) >> 16, in 0..Top
//
// For a value of 0 it is less than any sum that reaches 0.
func (k *Codec) Whole(n int) int64 { return k.whole[n] }

// Part is the table by the PartBits bits behind the leading one, likewise.
func (k *Codec) Part() []uint32 { return append([]uint32(nil), k.part...) }

// PartBits is how many bits behind the leading one index Part; the bits behind
// these are ignored, and those of a value that is too short are zero.
func (k *Codec) PartBits() int { return bits.Len(uint(len(k.part))) - 1 }

// Top is the largest code.
func (k *Codec) Top() uint64 { return k.top }

// UtilisationTables are the constants of a Utilisation.
type UtilisationTables struct {
	RoundTripNs uint64 // T
	// LogRoundTrip is log2(T), and LogBytes log2 of the bytes of a full link in T,
	// in units of 2^-LogFraction.
	LogRoundTrip, LogBytes int64
	// Scale is log2 of a utilisation of 1 in the state.
	Scale int
	Log   []uint32 // see Log: by the bits behind the leading one
	Exp   []uint64 // see Exp: by the first bits of the fraction
}

// Tables are the constants of the estimate.
func (u *Utilisation) Tables() UtilisationTables {
	return UtilisationTables{
		RoundTripNs: u.t, LogRoundTrip: u.logT, LogBytes: u.logBytes, Scale: utilisationScale,
		Log: append([]uint32(nil), u.log.table...), Exp: append([]uint64(nil), u.exp.table...),
	}
}
