// Package sketch has what the rows of all sketches share: cells that saturate
// instead of wrapping, their sums, and their binary form. The sketches
// themselves are in the packages below it:
//
//	countmin     frequencies, never too low (Cormode and Muthukrishnan, 2005)
//	countsketch  frequencies, unbiased; second moment (Charikar et al., 2002)
//	univmon      entropy, cardinality, moments and heavy flows at once (Liu et al., 2016)
//	tower        frequencies, never too low, by counters of growing width (TowerSketch, SuMax)
//	conservative frequencies, never too low, by conservative update in one pass or two (SuMax; Estan and Varghese)
//	bloom        whether a flow was there (Bloom, 1970)
//	hyperloglog  how many flows there were (Flajolet et al., 2007)
//	topk         the candidates for heavy flows, kept beside a sketch
//
// All of them take a flow as the 64-bit hash of its key under the flow seed,
// which a packet carries in its metadata, and mix it once more under the seed
// of each row, by the hash family that the row was set to use (xxhash, if none). So they never look at a key, and rows of different seeds are
// independent. Two keys of one hash are one flow to them; among 200,000 flows
// that happens with a chance of 1e-9.
//
// A Row is what one switch holds of a sketch (a fragment of DiSketch). Updates allocate
// nothing and take no lock: a row has one writer. Copies of the same shape and seeds merge, in any
// order, to what one row would hold that saw all their traffic.
//
// The package imports telemetry/hash alone.
package sketch
