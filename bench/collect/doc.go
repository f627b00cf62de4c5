// Package collect measures the collector: how many records and digests a second go from switches over an embedded
// NATS JetStream, with files on disk, into the store, and how long questions take.
//
//	records of a network, made by the systems' own code ── Publisher ──> embed.Server ──> collect.Collector ──> store.Live
//	                                                                                    query.Engine.Ask <── View ──┘
//
// The network has as many switches and epochs as the questions are meant for; its flows go five switches far, and their
// sizes are Zipf's. Everything is in one process, which is what a small machine has: what publishers and server
// use of the processors is part of the figure.
package collect
