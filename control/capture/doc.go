// Package capture copies packets off the packet path for inspection: a
// worker copies the first bytes of a packet into a slot of a bounded buffer, and
// a goroutine reads them. No worker waits: a packet without a slot is counted.
//
//	worker ── Take ──> [ slots, oldest first ] ── Drain ──> goroutine
package capture
