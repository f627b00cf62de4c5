package service

import (
	"github.com/weirswitch/weir/dataplane/lab/labpath"
	"github.com/weirswitch/weir/telemetry/pint/plan"
	"github.com/weirswitch/weir/telemetry/query"
	"github.com/weirswitch/weir/telemetry/store"
)

// Folder is a folder of records, which switches without a collector spool, to be asked as a collector is.
type Folder struct {
	Records string   // the folder
	Plans   []string // files of the plans of the switches' stage pint; none: the built-in plan
	// Pint are files of the paths that sinks decoded, Paths is a file of flows' paths, Lab that of a lab from whose
	// switches' routes the paths follow, unless there are Paths. For a flow the first of them that has a path counts.
	Pint       []string
	Paths, Lab string
	// Key is the file of the network's key that the lab's switches have, if its own file names none.
	Key string
	// FlowSeed is the seed of [stages.parse] in the switches; that of a lab takes its place.
	FlowSeed uint64
}

// Engine reads the records as they are now, and the files with paths.
func (f *Folder) Engine() (*query.Engine, error) {
	records, err := store.Read(f.Records)
	if err != nil {
		return nil, err
	}
	e := &query.Engine{Store: records, FlowSeed: f.FlowSeed}
	for _, file := range f.Plans {
		p, err := plan.Load(file)
		if err != nil {
			return nil, err
		}
		e.Plans = append(e.Plans, p)
	}
	var paths query.FirstOf
	if f.Pint != nil {
		decoded, err := query.ReadPintPaths(f.Pint...)
		if err != nil {
			return nil, err
		}
		paths = append(paths, decoded)
	}
	switch {
	case f.Paths != "":
		listed, err := query.ReadPaths(f.Paths, records)
		if err != nil {
			return nil, err
		}
		paths = append(paths, listed)
	case f.Lab != "":
		computed, err := labpath.Load(f.Lab, f.Key)
		if err != nil {
			return nil, err
		}
		paths, e.FlowSeed, e.Names = append(paths, computed), computed.Seed, computed.Names()
	}
	if paths != nil {
		e.Paths = paths
	}
	return e, nil
}
