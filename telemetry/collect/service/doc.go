// Package service is a collector as a service: it reads the records of a network out of a NATS JetStream stream, its
// own or that of other servers, holds the newest of them in memory, and answers questions about them.
//
//	JetStream ── collect.Collector ──> store.Live ── View ──> query.Engine ─┬─ view/api   programs, weir query
//	 (embed)                                                                ├─ view/page  browsers
//	                                                                        ├─ view/ipfix heavy flows of each interval
//	                                                                        └─ Collector.Ask
//
// A program makes a [Collector] of a configuration (package config) and runs it. All that is durable is in the stream;
// a collector that was killed reads it again when it starts.
package service
