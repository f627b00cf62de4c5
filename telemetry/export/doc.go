// Package export takes what a switch measured off its stages and sends it away
// as records, beside the packet path.
//
//	Source (a stage's module) ── Collect ──> Exporter ── Write ──> Sink: Spool, a folder of files
//
// The exporter polls its sources; none waits for it. What cannot be written is
// counted by kind, and never stops a packet.
package export
