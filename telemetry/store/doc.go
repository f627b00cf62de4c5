// Package store holds the records of a network, sorted by system, for queries.
//
//	files of records ── Read ──┐
//	                           ├── Add ──> Samples, Points, Sketches  (by slice of the clock and switch)
//	records from elsewhere ────┘               └── Report: what was duplicate, unreadable, missing
//
// Whatever comes is taken or counted: no record, however broken, ends a query. A
// slice is a piece of the clock, an epoch of a sample or an interval of a
// measurement point; switches have the same ones, as these begin at multiples of
// their length.
//
// A Store has one writer, and readers only while nothing is added.
package store
