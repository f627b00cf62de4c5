// Package lab builds networks of hosts and switches on one machine: network
// namespaces joined by veth pairs, after one TOML file (docs/lab.md).
//
//	config.go, validate.go   the file
//	draw.go                  the drawing of its topology
//	switchconfig.go          what each switch's own configuration becomes
//	state.go, process.go     the run directory: what exists, and which process is whose
//	up.go, down.go, status.go  making, removing and looking at a lab
//	traffic.go, ping.go, tcp.go, udp.go, flows*.go  what crosses it
//	account.go, report.go, text.go  whether all of it arrived and every counter adds up
//	run.go, command.go       up, traffic, report, down, for the command line
//
// The life of a lab: [Up] writes into the run directory what it is about to make, and
// only then makes it, so that [Down] knows all of it from any other process, whatever
// became of the first one. Namespaces come first, then cables, then switches; the hosts'
// interfaces come up last, when every switch forwards, so a switch receives all that its hosts
// ever sent and the two counters can be compared exactly.
package lab
