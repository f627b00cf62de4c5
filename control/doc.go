// Package control serves the API of a running switch on a unix socket.
//
//	weir ctl ── Client ──> socket ──> Server ──> Switch (joined by cmd: worker, stages)
//
// control is to be the only writer of a switch's tables. So far every call
// reads: read.go has them all. Calls that write belong into files of their
// own beside it, each of which checks a change whole, builds the new table beside
// the old one and has the stage swap the pointer; no call may block a worker for
// longer than a copy of its counters takes.
//
// Who may read the socket may read the switch: it is of mode 0660, and of the
// group that the switch runs in.
package control

import (
	"iter"

	"github.com/weirswitch/weir/control/api"
)

// Switch is what control needs of a switch. Its methods are called by many
// goroutines at once, while packets flow. What they return is the caller's.
type Switch interface {
	// Version tells which program runs.
	Version() *api.VersionResponse
	// Report collects all counters.
	Report() *api.ReportResponse
	// Fdb walks the forwarding database; ok is false if no stage has one.
	Fdb() (entries iter.Seq[*api.FdbEntry], ok bool)
	// Metrics collects what stages count of their own.
	Metrics() []*api.Metric
	// Pint answers for the stage pint; ok is false if there is none.
	Pint(*api.PintRequest) (answer *api.PintResponse, ok bool)
	// Config tells the complete configuration in force, as TOML.
	Config() string
}
