package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/weirswitch/weir/dataplane/lab/labpath"
	pintplan "github.com/weirswitch/weir/telemetry/pint/plan"
	"github.com/weirswitch/weir/telemetry/query"
	"github.com/weirswitch/weir/telemetry/store"
	"github.com/weirswitch/weir/telemetry/view/text"
)

// querySpool asks a folder of records.
type querySpool struct {
	folder string
	paths  string
	pint   []string
	plans  []string
	lab    string
	seed   uint64

	counts store.Counts // of the last answer
}

// spoolFlags are of a folder alone; a collector has them in its configuration.
var spoolFlags = []string{"paths", "pint", "plan", "lab", "seed"}

func (s *querySpool) add(cmd *cobra.Command) {
	p := cmd.PersistentFlags()
	p.StringVar(&s.folder, "records", "", "ask this `FOLDER` of records in place of a collector")
	p.StringVar(&s.paths, "paths", "", "with --records: `FILE` of the flows' paths (docs/query.md)")
	p.StringSliceVar(&s.pint, "pint", nil, "with --records: `FILES` of the paths that sinks decoded: weir ctl show paths --json")
	p.StringSliceVar(&s.plans, "plan", nil, "with --records: `FILES` of the plans of the switches' stage pint; without, the built-in one")
	p.StringVar(&s.lab, "lab", "", "with --records: lab `FILE` whose switches' routes tell the flows' paths")
	p.Uint64Var(&s.seed, "seed", 0, "with --records: seed of [stages.parse] in the switches; with --lab its own")
}

// unused refuses the flags that a collector has no use for.
func (*querySpool) unused(cmd *cobra.Command) error {
	return refuseFlags(cmd, spoolFlags, "is for records in a folder: name that too, with --records")
}

func refuseFlags(cmd *cobra.Command, names []string, why string) error {
	var faults []error
	for _, name := range names {
		if cmd.Flags().Changed(name) {
			faults = append(faults, fmt.Errorf("--%s %s", name, why))
		}
	}
	return errors.Join(faults...)
}

// Ask implements querySource. The folder is read anew: switches may be writing to it.
func (s *querySpool) Ask(ctx context.Context, q *query.Question) (any, error) {
	e, err := s.engine()
	if err != nil {
		return nil, usageError(err)
	}
	s.counts = e.Store.Counts()
	answer, err := e.Ask(ctx, q)
	if err != nil {
		return nil, err
	}
	return equal(answer)
}

// Watch implements querySource.
func (s *querySpool) Watch(ctx context.Context, q *query.Question, interval time.Duration, each func(any, error) error) error {
	next := time.NewTicker(interval)
	defer next.Stop()
	for {
		answer, err := s.Ask(ctx, q)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil && !errors.Is(err, query.ErrNoRecords) && !errors.Is(err, query.ErrUnknownFlow) {
			return err
		}
		if err := each(answer, err); err != nil {
			return err
		}
		select {
		case <-next.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Footer implements querySource.
func (s *querySpool) Footer(w io.Writer) error { return text.WriteCounts(w, s.counts) }

// engine reads the records and whatever tells the flows' paths.
func (s *querySpool) engine() (*query.Engine, error) {
	records, err := store.Read(s.folder)
	if err != nil {
		return nil, err
	}
	e := &query.Engine{Store: records, FlowSeed: s.seed}
	for _, file := range s.plans {
		plan, err := pintplan.Load(file)
		if err != nil {
			return nil, err
		}
		e.Plans = append(e.Plans, plan)
	}
	return e, s.findPaths(e)
}

// findPaths gives an engine what was named to tell paths.
func (s *querySpool) findPaths(e *query.Engine) error {
	var paths query.FirstOf
	if s.pint != nil {
		decoded, err := query.ReadPintPaths(s.pint...)
		if err != nil {
			return err
		}
		paths = append(paths, decoded)
	}
	switch {
	case s.paths != "":
		listed, err := query.ReadPaths(s.paths, e.Store)
		if err != nil {
			return err
		}
		paths = append(paths, listed)
	case s.lab != "":
		recomputed, err := labpath.Load(s.lab)
		if err != nil {
			return err
		}
		paths, e.FlowSeed = append(paths, recomputed), recomputed.Seed
	}
	if paths != nil {
		e.Paths = paths
	}
	return nil
}
