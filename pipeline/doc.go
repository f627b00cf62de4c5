// Package pipeline is the staged match-action pipeline: the contract of a
// stage, the graph that a switch's configuration names, its counters and its
// packet tracer.
//
//	[parse] -> [ingress] -> [policy] -> [forward] -> [egress] -> dispatch
//
// A Module is a configured stage of one switch: its tables, shared by all
// workers. A Stage is one worker's instance of it, with that worker's own
// state. A Graph is one worker's chain of stages; Run takes a batch through
// them. Which packets leave where is written in the batch; package worker
// sends them.
package pipeline
