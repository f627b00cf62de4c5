// Package capture takes packets off the packet path for whoever looks at them: a
// worker copies the first bytes of a packet into a slot of a bounded buffer, and
// a goroutine beside it reads them. No worker waits: what finds no slot is counted.
//
//	worker ── Take ──> [ slots, oldest first ] ── Drain ──> goroutine
package capture
