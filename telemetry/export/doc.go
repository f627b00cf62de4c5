// Package export takes what a switch measured off its stages and sends it away
// as records, beside the packet path.
//
//	Source (a stage's module) ── Collect ──> Exporter ── Write ──> Spool, a queue of files ── take ──> Shipper ──> NATS JetStream
//
// The exporter polls its sources; none waits for it. What cannot be written is
// counted by kind, and never stops a packet.
//
// The spool is always between: what was measured survives the switch's end by
// whatever signal, and the absence of a collector within the spool's bound. A file goes when all of
// its records are acknowledged. Without a collector there is no shipper, and files
// stay until the bound.
//
// Nothing is counted twice or not at all. By kind of record,
//
//	made = spooled + lost + over budget
//	spooled + found = sent + waiting + dropped
//
// where those over budget are beyond [telemetry] budget, found are records that an earlier run left behind, lost are those that the
// disk did not take, and dropped ones have a reason each.
//
// Sent means kept by JetStream. A shipper without an acknowledgement publishes again,
// and JetStream knows the record by its id. Files are not synced to the disk: a
// machine that loses its power loses what its kernel had not written yet.
package export
