package query

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"

	"github.com/weirswitch/weir/telemetry/store"
)

// Paths says by which switches a flow goes, first one first; nil: unknown.
type Paths interface {
	Path(flow Key) []uint32
}

// PathFunc makes a function Paths.
type PathFunc func(Key) []uint32

// Path calls the function.
func (f PathFunc) Path(flow Key) []uint32 { return f(flow) }

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

// ReadPaths reads a file of paths, a JSON array of lines such as
//
//	{"src": "10.0.1.0/24", "dst": "10.0.2.0/24", "switches": ["s1", "s3", "s2"]}
//
// The switches' names are those of the store's records.
func ReadPaths(file string, s *store.Store) (*FilePaths, error) {
	text, err := os.ReadFile(file)
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
				faults = append(faults, fmt.Errorf("line %d: switches: %q sent no records: those are of %v", i+1, name, s.Switches()))
			}
			r.path = append(r.path, id)
		}
	}
	return &FilePaths{routes}, errors.Join(faults...)
}

// Path finds a flow's line.
func (p *FilePaths) Path(flow Key) []uint32 {
	src, dst := flow.SrcAddr(), flow.DstAddr()
	i := slices.IndexFunc(p.routes, func(r route) bool {
		return (!r.src.IsValid() || r.src.Contains(src)) && (!r.dst.IsValid() || r.dst.Contains(dst))
	})
	if i < 0 {
		return nil
	}
	return p.routes[i].path
}
