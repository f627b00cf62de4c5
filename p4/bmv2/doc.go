// Package bmv2 runs our P4 programs on BMv2, the reference software switch of P4:
// it compiles them with p4c-bm2-ss, starts simple_switch in a network namespace, loads
// tables as runtime commands, passes packets one by one, and reads registers.
//
//	program.p4 ── Compile ──> program.json ── Start ──> simple_switch
//	weir p4 tables ── Switch.Load ── Thrift ──────────────>│
//	Switch.Send ── nanomsg, or an interface ──────────────>│
//	Switch.Receive <───────────────────────────────────────│
//	Switch.Registers <── Thrift ───────────────────────────│
//
// Packets come and go over a message socket rather than an interface where a test
// asks for exactness: no kernel takes a VLAN tag off, pads a frame, refuses a short
// one, or adds a packet of its own, and nothing is lost. A lab gives it interfaces.
//
// The programs are not ours and need not be installed: [Find] says which one is missing, and
// where it looked.
package bmv2
