// Package disketch is the stage that counts packets in fragments of
// disaggregated sketches: this switch's share of DiSketch (telemetry/disketch).
//
//	            ┌───────────────────────── disketch ─────────────────────────┐
//	packets ──> │ key ─> whose subepoch is it? ─> cell   (each fragment)     │ ──> packets, unchanged
//	            └── subepoch's end: cells of all workers ─> record ─> export ┘
//
// It counts what leaves the switch: packets that a stage before it dropped, and
// copies that a stage made, are not counted. A packet that came from a host and
// goes to a host (host_ports) passes no other switch, and is counted in two
// subepochs (Section 4.4 of the paper).
//
// Config keys: epoch_bits, seed, host_ports; and for each [[stages.disketch.fragment]]
// kind, key, prefix4, prefix6, unit, memory, levels, target, one_subepoch, hops, candidates. The number of
// a fragment in the file is that of its sketch, so all switches list them in one order,
// with the same values but for memory.
//
// Hashes are of the switch's family. With crc a P4 target counts the same packets in the same
// cells, where a row has a power of two of them: its column is the high bits of a hash, the
// sign its lowest bit, the subepoch the low bits of another.
//
// Records: kind disketch, one for each fragment and subepoch, instance = the fragment's
// number. Drop reasons: none. Cost: a hash, a compare and, in the flow's
// subepoch, a cell for each fragment.
package disketch
