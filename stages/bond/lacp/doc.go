// Package lacp is the Link Aggregation Control Protocol of IEEE 802.1AX-2014, clause 6.4, as pure data: LACPDUs as bytes, and the state machines of the
// ports of one aggregator. It knows no sockets and no clock: time and LACPDUs come by calls, and LACPDUs to send are returned.
//
//	LACPDU ──> Receive (6.4.12) ──> Selection (6.4.14) ──> Mux (6.4.15) ──> Collecting, Distributing
//	               │                                         │
//	               └────────> need to transmit <─────────────┘ <── Periodic (6.4.13)
//	                                  │
//	                              Transmit (6.4.16) ──> at most 3 LACPDUs in a second
//
// The mux machine is that with independent control (figure 6-21): a port sends once the partner takes. The aggregator has the
// link aggregation group that it has, for as long as a port of it is there; then the one with the most ports. So a port whose partner
// changes takes none of the others along. A port whose partner does not speak LACP carries nothing.
//
// What a partner sends is bounded in what it causes: a port joins at most once in the aggregate wait time (2 s), and sends at most 3 LACPDUs
// in a second. Not built: the churn detection machines (6.4.17), conversation-sensitive collection and distribution (6.6), and version 2 TLVs, which are passed over.
package lacp
