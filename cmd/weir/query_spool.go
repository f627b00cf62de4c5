package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/weirswitch/weir/config"
	"github.com/weirswitch/weir/dataplane/lab"
	"github.com/weirswitch/weir/internal/progress"
	"github.com/weirswitch/weir/telemetry/collect/service"
	"github.com/weirswitch/weir/telemetry/query"
	"github.com/weirswitch/weir/telemetry/store"
	"github.com/weirswitch/weir/telemetry/view/api"
	"github.com/weirswitch/weir/telemetry/view/text"
)

// querySpool asks a folder of records.
type querySpool struct {
	service.Folder
	keys []string      // files of the network's keys
	show io.Writer     // a terminal that shows progress; nil: there is none
	last *query.Engine // that answered last
}

// spoolFlags are of a folder alone; a collector has them in its configuration.
var spoolFlags = []string{"paths", "pint", "plan", "lab", "seed", "key"}

func (s *querySpool) add(cmd *cobra.Command) {
	p := cmd.PersistentFlags()
	p.StringVar(&s.Records, "records", "", "ask this `FOLDER` of records in place of a collector")
	p.StringVar(&s.Paths, "paths", "", "with --records: `FILE` of the flows' paths (docs/query.md)")
	p.StringSliceVar(&s.Pint, "pint", nil, "with --records: `FILES` of the paths that sinks decoded: weir ctl show paths --json")
	p.StringSliceVar(&s.Plans, "plan", nil, "with --records: `FILES` of the plans of the switches' stage pint; without, the built-in one")
	p.StringVar(&s.Lab, "lab", "", "with --records: lab `FILE` whose switches' routes give the flows' paths")
	p.StringSliceVar(&s.keys, "key", nil, "with --records: `FILES` of the network's keys (weir key new)")
	p.Uint64Var(&s.FlowSeed, "seed", 0, "with --records: seed of [stages.parse] in the switches; with --lab its own")
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
	s.last = e
	if s.show != nil && (q.Kind == query.KindDelay || q.Kind == query.KindLoss) {
		report, stop := progress.Steps(s.show, string(q.Kind))
		defer stop()
		e.Progress = func(read, all int) { report(read, all, "intervals") }
	}
	answer, err := e.Ask(ctx, q)
	if err != nil {
		return nil, s.elsewhere(e.Store, err)
	}
	m, err := api.NewAnswer(answer) // in the form in which a collector's arrives, so that both print the same
	if err != nil {
		return nil, fmt.Errorf("%w: this is a fault of weir", err)
	}
	return m.Value()
}

// elsewhere adds to the reason why the folder has no answer where the records are, or how they can be read.
func (s *querySpool) elsewhere(records *store.Store, err error) error {
	if n := records.Counts().Unkeyed; n != 0 && errors.Is(err, query.ErrNoRecords) {
		err = fmt.Errorf("%w: %d records are under a network key that is not loaded: name its file with --key", err, n)
	}
	folder, absErr := filepath.Abs(s.Records) // as a configuration has names
	if kept := filepath.Join(folder, "collector"); absErr == nil && records.Counts().Records == 0 && isFolder(kept) {
		keys := ""
		if key := filepath.Join(folder, lab.KeyFile); isFile(key) {
			keys = fmt.Sprintf(" and keys = [%q]", key)
		}
		return fmt.Errorf("%w in %s: it is of a lab with [collector], whose collector has what it took in %s: ask a collector whose [collect] has data = %q%s (weir collect), or run the lab with --linger",
			query.ErrNoRecords, s.Records, kept, kept, keys)
	}
	return err
}

// engine loads the keys and reads the folder. A lab that has drawn a key leaves it there.
func (s *querySpool) engine() (*query.Engine, error) {
	if _, err := os.Stat(s.Records); errors.Is(err, fs.ErrNotExist) || err == nil && !isFolder(s.Records) {
		return nil, fmt.Errorf("--records: there is no folder %s: name that of [telemetry] spool, or of weir lab run --keep", s.Records)
	}
	keys := s.keys
	if left := filepath.Join(s.Records, lab.KeyFile); len(keys) == 0 {
		if _, err := os.Lstat(left); err == nil {
			keys = []string{left}
		}
	}
	if len(keys) != 0 {
		s.Key = keys[0]
	}
	for _, path := range keys {
		if _, err := config.LoadKey(path); err != nil {
			return nil, fmt.Errorf("--key: %w", err)
		}
	}
	return s.Engine()
}

// isFolder reports whether there is a folder of a name.
func isFolder(name string) bool {
	info, err := os.Stat(name)
	return err == nil && info.IsDir()
}

// isFile reports whether there is something else of a name.
func isFile(name string) bool {
	info, err := os.Stat(name)
	return err == nil && !info.IsDir()
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
func (s *querySpool) Footer(w io.Writer) error { return text.WriteCounts(w, s.last.Store.Counts()) }
