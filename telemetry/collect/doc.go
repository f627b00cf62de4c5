// Package collect takes the records of a network out of the stream in which they
// are kept, and gives each to its consumer.
//
//	switches ── publish ──> stream WEIR (JetStream, on disk) ── ordered consumer ──> check ──> Applier
//	                                                                                  └── Counters
//
// The stream is the durable store; what the applier holds is a view of it. A
// collector that starts reads the stream from its beginning, so that being killed
// costs nothing but that time; it is ready when it has read what was there when it
// began. A message whose content contradicts its subject is counted, and not
// applied: the servers let a switch publish under its own number only, so the subject is what
// can be believed.
//
// Package embed is the server that a collector brings along, package web the HTTP
// server of its views.
package collect
