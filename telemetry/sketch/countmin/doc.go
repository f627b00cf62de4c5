// Package countmin estimates how often flows occurred, never too low: the
// Count-Min Sketch of Cormode and Muthukrishnan, "An improved data stream
// summary", Journal of Algorithms 55(1), 2005.
//
// A row of w cells adds a flow's value to one of its cells, which a hash of the
// flow chooses. The cell is the flow's value and that of all flows that share the
// cell, N/w on average, where N is the sum of all values. The minimum over rows
// errs by a multiple of that only if each row does.
//
// Values must not be negative: an estimate would no longer be an upper
// bound. The column comes from the hash's high bits (hash.Reduce), so any width
// will do.
package countmin
