// Package store holds the records of a network, sorted by system, for queries.
//
//	files of records ── Read ──┐
//	                           ├── Add ──> Store: Samples, Points, Sketches, Batches, Statuses
//	records from elsewhere ────┘            └── Missing, Counts: what was duplicate, unreadable, lost
//
//	records as they come ── Live.Add ──> buckets of a second each, bounded in bytes ── Live.View ──> Store
//
// Whatever comes is taken or counted: no record, however broken, ends a query. A
// slice is a piece of the clock, an epoch of a sample or an interval of a
// measurement point; switches have the same ones, as these begin at multiples of
// their length.
//
// A Store has one writer, and readers only while nothing is added. A Live store is for
// several of both at a time: what a query reads is a view that does not change.
//
// Bodies stay in the form in which they came where that is smaller than what they decode
// to: points, statuses, a fragment's cells (disketch.Decode) and digests, of which a batch finds
// those of a flow by bisection (pint.Digests). A digest takes what it takes in the record, 19 bytes for
// a flow of four within a second, and a cell of a sketch mostly one.
package store
