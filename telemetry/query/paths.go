package query

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/netip"
	"slices"

	"github.com/weirswitch/weir/internal/safefile"
	"github.com/weirswitch/weir/telemetry/disketch"
	"github.com/weirswitch/weir/telemetry/store"
)

// Paths says by which switches flows go: reported by PINT's sinks (PintPaths),
// recomputed from the switches' routes (a PathFunc), or read from a file (FilePaths).
type Paths interface {
	// Path lists a flow's passages in the order of time; none: its path is not
	// known.
	Path(flow Key) []Passage
}

// Passage is a way that a flow took, until its next passage begins.
type Passage struct {
	// From is when it began, in ns of CLOCK_TAI; Always: as long ago as is known of.
	From int64
	// Switches, first one first; nil: the way of this time is not known.
	Switches []uint32
}

// Always is the beginning of passages whose beginning is unknown.
const Always = math.MinInt64

// PathFunc makes Paths of a function for ways that do not change; nil from it: unknown.
type PathFunc func(Key) []uint32

// Path gives the flow's one passage.
func (f PathFunc) Path(flow Key) []Passage { return always(f(flow)) }

func always(way []uint32) []Passage {
	if way == nil {
		return nil
	}
	return []Passage{{Always, way}}
}

// FirstOf asks several Paths in turn: the first that knows a flow's path returns it.
type FirstOf []Paths

// Path implements Paths.
func (all FirstOf) Path(flow Key) []Passage {
	for _, p := range all {
		if path := p.Path(flow); path != nil {
			return path
		}
	}
	return nil
}

// timeline is a flow's passages as the fragments' query has them: as parts of
// epochs.
type timeline struct {
	epochs   disketch.Epochs
	passages []Passage
	ways     [][]uint64
}

func newTimeline(epochs disketch.Epochs, passages []Passage) *timeline {
	t := &timeline{epochs: epochs, passages: passages}
	for _, p := range passages {
		way := make([]uint64, len(p.Switches))
		for i, sw := range p.Switches {
			way[i] = uint64(sw)
		}
		t.ways = append(t.ways, way)
	}
	return t
}

// Path implements disketch.Paths.
func (t *timeline) Path(buf []disketch.Segment, _, epoch uint64) []disketch.Segment {
	length := int64(t.epochs.Nanoseconds())
	start := int64(epoch) * length
	for i := range t.passages {
		from, to := max(t.passages[i].From, start), start+length
		if i+1 < len(t.passages) {
			to = min(to, t.passages[i+1].From)
		}
		if from < to && len(t.ways[i]) > 0 {
			part := func(at int64) float64 { return float64(at-start) / float64(length) }
			buf = append(buf, disketch.Segment{Switches: t.ways[i], From: part(from), To: part(to)})
		}
	}
	return buf
}

// switches are those of all passages, each once, in the order of the way.
func (t *timeline) switches() (all []uint32) {
	for _, p := range t.passages {
		for _, sw := range p.Switches {
			if !slices.Contains(all, sw) {
				all = append(all, sw)
			}
		}
	}
	return all
}

// route is a line of a file of paths.
type route struct {
	Src      string   `json:"src"` // prefix; empty: any
	Dst      string   `json:"dst"`
	Switches []string `json:"switches"`

	src, dst netip.Prefix
	path     []uint32
}

// FilePaths are paths by prefixes of source and destination. The first line that
// matches a flow is its path.
type FilePaths struct{ routes []route }

// maxPaths bounds a file of paths, in bytes.
const maxPaths = 256 << 20

// ErrSentNothing says of a file of paths that it names a switch of which there is no record.
var ErrSentNothing = errors.New("sent no records")

// ReadPaths reads a file of paths, a JSON array of lines such as
//
//	{"src": "10.0.1.0/24", "dst": "10.0.2.0/24", "switches": ["s1", "s3", "s2"]}
//
// The switches' names are those of the store's records; ErrSentNothing: one is not among them.
func ReadPaths(file string, s *store.Store) (*FilePaths, error) {
	text, err := safefile.ReadTrusted(file, maxPaths)
	if err != nil {
		return nil, fmt.Errorf("read paths: %w", err)
	}
	p, err := parsePaths(text, s)
	if err != nil {
		return nil, fmt.Errorf("read paths of %s: %w", file, err)
	}
	return p, nil
}

func parsePaths(text []byte, s *store.Store) (*FilePaths, error) {
	var routes []route
	if err := json.Unmarshal(text, &routes); err != nil {
		return nil, err
	}
	var faults []error
	prefix := func(i int, key, text string) netip.Prefix {
		if text == "" {
			return netip.Prefix{}
		}
		p, err := netip.ParsePrefix(text)
		if err != nil {
			faults = append(faults, fmt.Errorf("line %d: %s: %q: write an address and a length, as 10.0.0.0/8", i+1, key, text))
		}
		return p.Masked()
	}
	for i := range routes {
		r := &routes[i]
		r.src, r.dst = prefix(i, "src", r.Src), prefix(i, "dst", r.Dst)
		if len(r.Switches) == 0 {
			faults = append(faults, fmt.Errorf("line %d: switches: name one or more", i+1))
		}
		for _, name := range r.Switches {
			id, ok := s.Switch(name)
			if !ok {
				faults = append(faults, fmt.Errorf("line %d: switches: %q %w: those are of %v", i+1, name, ErrSentNothing, s.Switches()))
			}
			r.path = append(r.path, id)
		}
	}
	return &FilePaths{routes}, errors.Join(faults...)
}

// Path finds a flow's line.
func (p *FilePaths) Path(flow Key) []Passage {
	src, dst := flow.SrcAddr(), flow.DstAddr()
	i := slices.IndexFunc(p.routes, func(r route) bool {
		return (!r.src.IsValid() || r.src.Contains(src)) && (!r.dst.IsValid() || r.dst.Contains(dst))
	})
	if i < 0 {
		return nil
	}
	return always(p.routes[i].path)
}
