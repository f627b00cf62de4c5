// Package countsketch estimates how often flows occurred, too high as likely as
// too low, and the second moment of their frequencies: the Count Sketch of
// Charikar, Chen and Farach-Colton, "Finding frequent items in data streams",
// ICALP 2002.
//
// A row of w cells adds a flow's value to one of its cells, or subtracts it:
// a hash of the flow chooses the cell and the sign. The cell times the sign
// estimates the flow, without bias and with a variance of at most F2/w, where F2 is
// the sum of the squares of all flows' values. The median over rows errs by a
// multiple of that only if half of the rows do.
//
// Column and sign come from one hash: the column from its high bits
// (hash.Reduce, so any width will do), the sign from its lowest bit.
package countsketch
