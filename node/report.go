package node

import (
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"time"

	"go.uber.org/zap"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/weirswitch/weir/config"
	"github.com/weirswitch/weir/control/api"
	"github.com/weirswitch/weir/dataplane/worker"
	"github.com/weirswitch/weir/internal/buildinfo"
	"github.com/weirswitch/weir/internal/privilege"
	"github.com/weirswitch/weir/pipeline"
	"github.com/weirswitch/weir/telemetry/export"
	"github.com/weirswitch/weir/telemetry/record"
)

// Report returns all counters at one moment. While packets flow the workers' counters are
// of slightly different moments; after Run they are the last ones, frames are accounted
// for, and Pint has what PINT's digests answer, about up to 1,000 flows each.
func (n *Node) Report() *api.ReportResponse {
	r := n.final.Load()
	if r == nil {
		now := n.sw.Report()
		m := reportMessage(&now)
		n.addBlocks(m.Ports)
		m.Metrics, m.Records = n.Metrics(), n.Records()
		return m
	}
	m := reportMessage(r)
	m.Metrics, m.Records = n.Metrics(), n.Records()
	answers, err := n.digests.Load().Answers(finalFlows)
	if err == nil {
		m.Pint, err = PintReport(n.chain(), answers)
	}
	if err != nil {
		n.log.Error("the report lacks what digests answer", zap.Error(err))
	}
	return m
}

// addBlocks notes on ports why guards have blocked them.
func (n *Node) addBlocks(ports []*api.Port) {
	for _, stage := range n.chain() {
		m, ok := stage.Module.(pipeline.Blocker)
		if !ok {
			continue
		}
		for _, b := range m.Blocks() {
			for _, p := range ports {
				if p.Name == b.Port {
					p.Blocked = fmt.Sprintf("%v, for %v more: %s", b.Reason, b.Left.Round(time.Second), whyBlocked(b))
				}
			}
		}
	}
}

// whyBlocked is the help of a block's reason, without that the port is blocked.
func whyBlocked(b pipeline.Block) string {
	return strings.TrimPrefix(b.Reason.Help(), "the port is blocked: ")
}

// logBlock logs a block that begins.
func (n *Node) logBlock(b pipeline.Block) {
	n.log.Warn("a guard has blocked a port", zap.String("port", b.Port), zap.Stringer("reason", b.Reason),
		zap.Duration("for", b.Left), zap.String("why", whyBlocked(b)))
}

// reportMessage converts a report by its JSON form, which the message has too; a test
// sees that no field differs.
func reportMessage(r *worker.Report) *api.ReportResponse {
	m := &api.ReportResponse{}
	text, err := json.Marshal(r)
	if err == nil {
		err = protojson.UnmarshalOptions{DiscardUnknown: true}.Unmarshal(text, m)
	}
	if err != nil { // numbers and texts alone have a form always
		panic("node: " + err.Error())
	}
	return m
}

// Favour has the workers go first on cores that they share with other threads of this process: [worker.Switch.Favour]. A program that
// is a switch and nothing else calls it in Options.Ready.
func (n *Node) Favour() (nice int, err error) { return n.sw.Favour() }

// Version returns which build of Weir the program has, and which capabilities the process
// has now.
func (n *Node) Version() *api.VersionResponse {
	v := Version()
	v.Capabilities = privilege.Kept()
	return v
}

// DropPrivileges gives up the capabilities of the process, for good, but for those with which ports are opened again, and
// those too without control.keep_capabilities. A program calls it in Options.Ready. It returns what is kept, sorted.
func DropPrivileges(c *config.Config) (kept []string, err error) {
	keep := privilege.ForPorts
	if !c.Control.KeepCapabilities {
		keep = nil
	}
	err = privilege.Drop(keep)
	return privilege.Kept(), err
}

// Version returns which build of Weir the program has.
func Version() *api.VersionResponse {
	i := buildinfo.Read()
	return &api.VersionResponse{
		Version: i.Version, Revision: i.Revision, Time: i.Time, Modified: i.Modified,
		Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH,
	}
}

// Config returns the configuration in force as TOML, with every default.
func (n *Node) Config() string { return n.inForce.Load().text }

// Records returns where records go and what became of them; nil without a spool.
func (n *Node) Records() *api.Records { return Records(n.path) }

// Metrics returns what the stages, the record path and the control server count beside the
// report.
func (n *Node) Metrics() []*api.Metric {
	all := StageMetrics(n.chain())
	if records := n.Records(); records != nil {
		all = append(all, RecordMetrics(records, n.path.Spool.Dropped())...)
	}
	if server := n.server.Load(); server != nil {
		all = append(all, server.Counters().Metrics()...)
	}
	if n.takeovers != nil {
		all = append(all, TakeoverMetrics(time.Duration(n.blocked.Load()), n.takeoversFailed.Load())...)
	}
	return all
}

// StageMetrics returns what the stages of a graph count beside packets, in the order of
// the graph.
func StageMetrics(chain []pipeline.Named) (all []*api.Metric) {
	for _, stage := range chain {
		if m, ok := stage.Module.(pipeline.Metered); ok {
			m.Metrics(func(v pipeline.Metric) {
				labels := make(map[string]string, len(v.Labels))
				for _, l := range v.Labels {
					labels[l[0]] = l[1]
				}
				all = append(all, &api.Metric{Stage: stage.Name, Name: v.Name, Help: v.Help, Labels: labels, Value: v.Value, Gauge: v.Gauge})
			})
		}
	}
	return all
}

// RecordStage is the stage of the record path's metrics.
const RecordStage = "telemetry"

// lostReason is the reason of records that the disk did not take, and budgetReason of those beyond the budget: they never were in the spool.
const (
	lostReason   = "lost"
	budgetReason = "budget"
)

// Records returns where the records of a path go and what became of them; nil without a
// spool.
func Records(p *export.Path) *api.Records {
	if p.Spool == nil {
		return nil
	}
	// The spool's counts are read first: none is sent whose acknowledgement is not counted below.
	spooled := p.Spool.Counts()
	s := p.Sending()
	r := &api.Records{
		Spool: p.Spool.Folder(), State: string(s.State), Server: s.Server, SinceNs: unixNano(s.Since), Connects: s.Connects,
		Published: s.Published, Acknowledged: s.Acknowledged, Retried: s.Retried, Duplicates: s.Duplicates,
		LastError: s.LastError, LastErrorNs: unixNano(s.LastErrorAt),
	}
	for _, d := range p.Spool.DroppedBefore() {
		r.DroppedBefore = append(r.DroppedBefore, dropMessage(d))
	}
	counts := map[record.Kind]export.KindCounts{}
	for _, c := range spooled {
		counts[c.Kind] = c
	}
	for kind := range record.Kind(255) {
		c, there := counts[kind]
		lost, over := p.Lost(kind), p.OverBudget(kind)
		if !there && lost.Records == 0 && over.Records == 0 {
			continue
		}
		m := &api.RecordKind{
			Kind: kind.String(), Made: c.Spooled.Records + lost.Records + over.Records, Spooled: c.Spooled.Records, Found: c.Found.Records,
			Sent: c.Sent.Records, Waiting: c.Waiting.Records, Lost: lost.Records,
			SpooledBytes: c.Spooled.Bytes, SentBytes: c.Sent.Bytes, WaitingBytes: c.Waiting.Bytes,
		}
		for _, d := range c.Dropped {
			m.Dropped += d.Records
			m.Drops = append(m.Drops, dropMessage(d))
		}
		if lost.Records != 0 {
			m.Drops = append(m.Drops, dropMessage(export.Drop{Reason: lostReason, Tally: lost}))
		}
		if over.Records != 0 {
			m.Drops = append(m.Drops, dropMessage(export.Drop{Reason: budgetReason, Tally: over}))
		}
		r.Kinds = append(r.Kinds, m)
	}
	return r
}

func dropMessage(d export.Drop) *api.RecordDrop {
	return &api.RecordDrop{
		Kind: d.Kind.String(), Reason: d.Reason, Records: d.Records, Bytes: d.Bytes,
		FirstEpoch: d.FirstEpoch, LastEpoch: d.LastEpoch, FirstNs: d.First, LastNs: d.Last,
	}
}

func unixNano(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixNano()
}

// RecordMetrics returns the records' counters as metrics. droppedFiles is the spool's.
func RecordMetrics(r *api.Records, droppedFiles uint64) (all []*api.Metric) {
	send := func(gauge bool, name, help string, value float64, labels ...string) {
		m := &api.Metric{Stage: RecordStage, Name: name, Help: help, Labels: map[string]string{}, Value: value, Gauge: gauge}
		for i := 0; i < len(labels); i += 2 {
			m.Labels[labels[i]] = labels[i+1]
		}
		all = append(all, m)
	}
	for _, k := range r.Kinds {
		count := func(name, help string, n uint64) { send(false, name, help, float64(n), "kind", k.Kind) }
		count("made_records_total", "records made: spooled + lost + dropped for the budget", k.Made)
		count("spooled_records_total", "records written to the spool", k.Spooled)
		count("spooled_bytes_total", "bytes of the records written to the spool", k.SpooledBytes)
		count("found_records_total", "records that an earlier run left in the spool", k.Found)
		count("sent_records_total", "records that JetStream has acknowledged", k.Sent)
		count("sent_bytes_total", "bytes of the records sent", k.SentBytes)
		count("lost_records_total", "records that could not be encoded, or that the disk did not take", k.Lost)
		send(true, "waiting_records", "records in the spool that are not sent yet", float64(k.Waiting), "kind", k.Kind)
		send(true, "waiting_bytes", "bytes of these", float64(k.WaitingBytes), "kind", k.Kind)
		for _, d := range k.Drops {
			labels := []string{"kind", k.Kind, "reason", d.Reason}
			if d.Reason != lostReason {
				send(false, "dropped_records_total", "records that the spool dropped, or never had as they were beyond the budget, by reason", float64(d.Records), labels...)
			}
			send(true, "dropped_first_epoch", "the first epoch of the records dropped or lost", float64(d.FirstEpoch), labels...)
			send(true, "dropped_last_epoch", "the last epoch of the records dropped or lost", float64(d.LastEpoch), labels...)
		}
	}
	connected := 0.
	if r.State == string(export.Connected) {
		connected = 1
	}
	send(false, "dropped_files_total", "spool files that went to make room", float64(droppedFiles))
	send(true, "connected", "whether the switch is connected to its collector's servers", connected)
	send(true, "state_seconds", "since when, in Unix time, it is, or is not", float64(r.SinceNs)/1e9)
	send(false, "connects_total", "times it connected", float64(r.Connects))
	send(false, "published_records_total", "records published, each time", float64(r.Published))
	send(false, "retried_records_total", "records published again, since nothing was heard of them", float64(r.Retried))
	send(false, "duplicate_records_total", "records sent that JetStream had already", float64(r.Duplicates))
	return all
}
