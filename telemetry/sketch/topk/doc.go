// Package topk remembers the keys of the heaviest flows, as candidates for a
// sketch that can estimate any flow but name none.
//
// A Table is a set-associative cache: a flow's hash chooses a set of four
// entries, which is one cache line of hashes and counts. A flow of the set is
// counted; a new one replaces the set's smallest count n with
// probability v/(n+v) and then counts n+v (the randomized admission of Ben Basat,
// Einziger, Friedman and Kassner, INFOCOM 2017), so that a stream of small
// flows does not wash out the large ones, and most packets of small
// flows write nothing. Counts are therefore estimates, on average right; values
// with a bound come from the sketch.
//
// A table of 4k entries misses some 2 % of the k heaviest flows of heavy-tailed
// traffic: those whose set has five of them, and light ones that came late.
package topk
