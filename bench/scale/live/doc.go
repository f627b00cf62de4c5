// Package live runs a network of many switches against a cluster of three NATS servers and two collectors, all on this machine.
//
//	publishers: rows of five switches with the stages of a live one ── exporter, spool, shipper, a connection each ──┐
//	                                                                                                                 v
//	accounting <── reads the whole stream ── three servers (killed: the stream's leader) ──> two collectors (killed: one) <── questions
//
// Servers, collectors and publishers are processes, so that a kill is one. The packets of a publisher's network are simulated; whatever is
// behind them, from the stages to the connection, is what a switch runs. At the end each record that was written to a spool is looked for in the stream:
// it is there once, or its switch counts it as dropped or as waiting, kind by kind.
package live
