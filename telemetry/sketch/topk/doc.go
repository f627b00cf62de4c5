// Package topk remembers the keys of the heaviest flows, as candidates for a
// sketch that can estimate any flow but name none.
//
// A Table is a set-associative cache: a flow's hash chooses a set of four
// entries, which is one cache line of hashes and counts. A flow of the set is
// counted; a new one takes the place of the set's smallest count n with
// probability v/(n+v) and then counts n+v (the randomized admission of Ben Basat,
// Einziger, Friedman and Kassner, INFOCOM 2017), so that a stream of small
// flows does not wash out the large ones, and most packets of small
// flows write nothing. Counts are therefore estimates, on average right; values
// with a bound come from the sketch.
//
// Of k flows heavier than all others together could push out, one is missing only
// if more than four share its set. In a table of 4k entries that is the lot of
// less than 2 % of them, and then of the lighter ones of the set.
package topk
