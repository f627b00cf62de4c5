// Package control serves the API of a running switch on a unix socket, and over
// TCP with certificates on both sides.
//
//	weir ctl ── Client ──> socket ──> limiter ──> Server ──> reader ──┐
//	                                                 └─ admins ─> admin ──> Switch (joined by cmd: config, worker, stages)
//	                                                                └──> Audit
//
// The calls that read are in read.go, those that change a switch or look into its
// packets in admin.go. Changes wait for their turn, in the order in which their clients came (line.go). A change is checked whole and built next to what is in force,
// and then swapped between two batches; no call blocks a worker for longer than a copy
// of its counters takes, and none lets it wait for a client.
//
// Who may connect to the socket may read: it is of mode 0660, and of the group
// that the configuration names. Root and the switch's own user may change the
// switch. Over TCP a certificate decides. What a client can hold is bounded:
// connections, requests, headers, and the time for each.
package control

import (
	"context"
	"iter"

	"github.com/weirswitch/weir/control/api"
	"github.com/weirswitch/weir/telemetry/query"
)

// Switch is what control needs of a switch. Its methods are called by many
// goroutines at once, while packets flow. What they return is the caller's.
type Switch interface {
	// Version identifies the program.
	Version() *api.VersionResponse
	// Report collects all counters.
	Report() *api.ReportResponse
	// Fdb walks the forwarding database; ok is false if no stage has one.
	Fdb() (entries iter.Seq[*api.FdbEntry], ok bool)
	// Metrics collects the stages' own counters.
	Metrics() []*api.Metric
	// Records reports where the records go; nil: nowhere.
	Records() *api.Records
	// Pint reports what the stage pint measured itself; ok is false if there is none.
	Pint() (r *api.PintReport, ok bool)
	// Ask answers a question from the digests that ended at the switch, as query.Engine.Ask does.
	Ask(context.Context, *query.Question) (answer any, err error)
	// Config returns the complete configuration in force, as TOML.
	Config() string
	// Acl, Routes, Neighbours, Bonds, Lldp and Groups return tables; ok is false if no stage has them.
	Acl() (r *api.AclResponse, ok bool)
	Routes() (r *api.RoutesResponse, ok bool)
	Neighbours() (r *api.NeighboursResponse, ok bool)
	Bonds() (r *api.BondsResponse, ok bool)
	Lldp() (r *api.LldpResponse, ok bool)
	Groups() (r *api.GroupsResponse, ok bool)
	Admin
}

// Admin is what control needs of a switch to change it, and to look at its
// packets. An error is for the client to read, and nothing has changed then.
type Admin interface {
	Set(*api.SetRequest) (*api.ChangeResponse, error)
	Reload(*api.ReloadRequest) (*api.ChangeResponse, error)
	Clear(*api.ClearRequest) (*api.ClearResponse, error)
	Trace(context.Context, *api.TraceRequest) (*api.TraceResponse, error)
	// Capture sends pieces until it is done, send fails or the context ends.
	Capture(ctx context.Context, q *api.CaptureRequest, send func(*api.CaptureResponse) error) error
}
