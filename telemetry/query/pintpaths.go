package query

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"

	"github.com/weirswitch/weir/telemetry/pint"
	pintplan "github.com/weirswitch/weir/telemetry/pint/plan"
	"github.com/weirswitch/weir/telemetry/pint/sink"
)

// PintPaths are paths that sinks decoded from PINT's digests: from the digests
// themselves (NewPintPaths and Record), or from what sinks say (ReadPintPaths). It
// belongs to one goroutine while digests come.
type PintPaths struct {
	recorder *sink.Recorder // nil: paths are told
	query    string
	now      int64
	flows    map[pint.FlowKey][]Passage
	unknown  uint64
}

// maxPassages bounds the passages of a flow: the oldest goes.
const maxPassages = 64

// NewPintPaths decodes the paths of a plan from the digests that Record takes in,
// by the first of its queries for the path of switches' ids. c.Decoders may name the network's
// switches or links; c.PathEvent is set here.
func NewPintPaths(p *pintplan.Plan, c sink.RecorderConfig) (*PintPaths, error) {
	i := slices.IndexFunc(p.Queries, func(q pint.Query) bool { return q.Aggregation == pint.Path && q.Value == pint.SwitchID })
	if i < 0 {
		return nil, fmt.Errorf("plan %d has no query for the path of switches", p.ID)
	}
	paths := &PintPaths{query: p.Queries[i].Name, flows: map[pint.FlowKey][]Passage{}}
	c.PathEvent = paths.event
	var err error
	paths.recorder, err = sink.NewRecorder(p, c)
	return paths, err
}

// Record takes in a packet's digest, in the order of time: TimeNs is of
// CLOCK_TAI, as the switches' epochs are.
func (p *PintPaths) Record(r *pint.Record) {
	p.now = int64(r.TimeNs)
	p.recorder.Record(r)
}

// event notes a flow's path that became certain, or is not any more. A first
// path is taken to have held since ever; one that changed is unknown from where the
// change was noticed, until the next one is certain: that then began there.
func (p *PintPaths) event(query string, flow pint.FlowKey, e sink.Event) {
	if query != p.query {
		return
	}
	all := p.flows[flow]
	if e == sink.Changed {
		if n := len(all); n > 0 && all[n-1].Switches != nil {
			p.flows[flow] = latest(append(all, Passage{From: p.now}))
		}
		return
	}
	a, _ := p.recorder.Path(query, flow)
	p.know(flow, a.Path)
}

// know notes the way of a flow's last passage.
func (p *PintPaths) know(flow pint.FlowKey, path []uint64) {
	way := make([]uint32, len(path))
	for i, sw := range path {
		if sw > math.MaxUint32 {
			p.unknown++
			return
		}
		way[i] = uint32(sw)
	}
	all := p.flows[flow]
	switch n := len(all); {
	case n == 0:
		all = []Passage{{Always, way}}
	case all[n-1].Switches != nil && !slices.Equal(all[n-1].Switches, way):
		all = append(all, Passage{p.now, way})
	case n > 1 && slices.Equal(all[n-2].Switches, way):
		all = all[:n-1] // It had not changed after all.
	default:
		all[n-1].Switches = way
	}
	p.flows[flow] = latest(all)
}

func latest(all []Passage) []Passage { return all[max(0, len(all)-maxPassages):] }

// Path implements Paths. A plan may define flows by fewer fields than the 5-tuple.
func (p *PintPaths) Path(flow Key) []Passage {
	for _, d := range []pint.FlowDefinition{{}, {Key: "src-dst"}, {Key: "src"}, {Key: "dst"}} {
		if all := p.flows[d.Of(pint.FlowKey(flow))]; len(all) > 1 || len(all) == 1 && all[0].Switches != nil {
			return all
		}
	}
	return nil
}

// Flows is how many flows have a path.
func (p *PintPaths) Flows() int { return len(p.flows) }

// ReadPintPaths reads what sinks report of paths: files of `weir ctl show paths --json`. A path that is not certain, or of
// ports instead of switches, is left out; so is one that changed, since the answers of several sinks are not of one time.
func ReadPintPaths(files ...string) (*PintPaths, error) {
	p := &PintPaths{flows: map[pint.FlowKey][]Passage{}}
	var faults []error
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err == nil {
			err = p.parse(text)
		}
		if err != nil {
			faults = append(faults, fmt.Errorf("read PINT's paths of %s: %w", file, err))
		}
	}
	return p, errors.Join(faults...)
}

func (p *PintPaths) parse(text []byte) error {
	var report struct{ Paths *PathAnswer }
	if err := json.Unmarshal(text, &report); err != nil {
		return err
	}
	if report.Paths == nil {
		return errors.New("no \"paths\" are in it: write it by weir ctl show paths --json")
	}
	if report.Paths.Value != pint.SwitchID.String() {
		return nil
	}
	for i := range report.Paths.Flows {
		f := &report.Paths.Flows[i]
		if !f.Certain || f.Changes != 0 || strings.Contains(f.Flow, " type 0x") { // not IP
			continue
		}
		k, err := ParseKey(f.Flow)
		if err != nil {
			return fmt.Errorf("paths[%d]: %w", i, err)
		}
		path := make([]uint64, len(f.Hops))
		for i, h := range f.Hops {
			path[i] = h.Number
		}
		p.know(pint.FlowKey(k), path)
	}
	return nil
}
