// Package disketch disaggregates sketches over the switches of a path and over
// time: DiSketch, "Sketch Disaggregation Across Time and Space" (Langlet et
// al.), whose equations and sections the comments cite.
//
// Each switch holds a Fragment: one row of a sketch (of UnivMon one row per
// level), as wide as the memory that the switch can spare. Time is divided into
// epochs of 2^k ns, and a fragment divides its epochs into n subepochs. It
// counts a flow in one of them only, which a hash chooses, so a small or busy
// fragment counts fewer flows at a time and errs as little as a large one.
//
//	packet path    Counter.Count ── subepoch's end ──> Record
//	switch         Fragment.Observe(record's error) ── epoch's end ──> n (Eq. 6)
//	collector      Records.Add ──> Frequency, HeavyHitters, Entropy, ... by Paths
//
// A query takes the records of all fragments on a flow's path, brings them to a
// common scale of time, and joins them as rows of one sketch: median for Count
// Sketch, minimum for Count-Min. What no record covers is extrapolated.
//
// A flow is the 64-bit hash of its key under the flow seed, as in
// telemetry/sketch. All fragments of a sketch hash by one family, which their records'
// envelope names. The package knows no packet and no clock: time is an
// argument, in nanoseconds.
package disketch
