package service

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/weirswitch/weir/config"
	"github.com/weirswitch/weir/dataplane/lab/labpath"
	"github.com/weirswitch/weir/pipeline/clock"
	"github.com/weirswitch/weir/telemetry/collect"
	"github.com/weirswitch/weir/telemetry/collect/archive"
	"github.com/weirswitch/weir/telemetry/collect/set"
	"github.com/weirswitch/weir/telemetry/pint/plan"
	"github.com/weirswitch/weir/telemetry/query"
	"github.com/weirswitch/weir/telemetry/store"
)

// asker answers questions from the records in memory, and from those that other collectors of a set have.
type asker struct {
	live      *store.Live
	engine    query.Engine // without Store and Now
	pathsFile string       // whose paths depend on the switches that sent records; empty: none
	set       *set.Member  // nil: no other collector has digests
	past      past         // what memory has not
	name      string       // the collector's, as that of its own region
	regions   []*region    // whose collectors are asked, too

	mu        sync.Mutex
	seen      *store.Store // shared by questions that come in quick succession
	at        time.Time
	filePaths *query.FilePaths
	names     []string // of the switches for which filePaths were read
}

// newAsker reads the files that the configuration names.
func newAsker(c *config.Collect, live *store.Live) (*asker, error) {
	a := &asker{
		live: live, pathsFile: c.Collect.Paths, name: c.Collect.Name,
		engine: query.Engine{
			FlowSeed: c.Collect.FlowSeed,
			Limits:   query.Limits{Candidates: c.Limits.Candidates, Records: c.Limits.Records, Bytes: c.Limits.Bytes},
		},
	}
	var errs []error
	for i, file := range c.Collect.Plans {
		p, err := plan.Load(file)
		if err != nil {
			errs = append(errs, fmt.Errorf("collect.plans[%d]: %w", i, err))
			continue
		}
		a.engine.Plans = append(a.engine.Plans, p)
	}
	var err error
	if a.regions, err = newRegions(c); err != nil {
		errs = append(errs, err)
	}
	for _, l := range c.Links {
		a.engine.Links = append(a.engine.Links, query.Link{Ends: l.Ends, Speed: l.Speed})
	}
	if c.Collect.Lab != "" {
		key := ""
		if len(c.Collect.Keys) != 0 {
			key = c.Collect.Keys[0]
		}
		paths, err := labpath.Load(c.Collect.Lab, key)
		if err != nil {
			errs = append(errs, fmt.Errorf("collect.lab: %w", err))
		} else {
			a.engine.Paths, a.engine.FlowSeed, a.engine.Names, a.pathsFile = paths, paths.Seed, paths.Names(), ""
		}
	}
	return a, errors.Join(errs...)
}

// viewAge is how old a view may be from which a question is answered although records arrived since.
const viewAge = 100 * time.Millisecond

// view is the store as it is now. While no record arrives, all questions share it, and what it caches.
func (a *asker) view() *store.Store {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.seen == nil || time.Since(a.at) > viewAge && a.live.Counts() != a.seen.Counts() {
		a.seen, a.at = a.live.View(store.Window{}), time.Now()
	}
	return a.seen
}

// renew has the next view be of now.
func (a *asker) renew() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.seen = nil
}

func (a *asker) ask(ctx context.Context, q *query.Question) (any, error) {
	if len(a.regions) > 0 {
		return a.askRegions(ctx, q)
	}
	e, _, err := a.known(ctx, q, false)
	if err != nil {
		return nil, err
	}
	return e.Ask(ctx, q)
}

// known is an engine for what is known here of a question: in memory, by the other collectors of a set, and in the archive; and which records the question needs. all says
// that it needs digests of all flows.
func (a *asker) known(ctx context.Context, q *query.Question, all bool) (e query.Engine, needed store.Needed, err error) {
	held := collect.Mask(0)
	if a.set != nil {
		held = a.set.Holds()
	}
	now, memory := clock.Kernel.TAI(), a.view()
	w, windowed := windowOf(memory, now, q)
	want, past := a.past.of(q, w, a.pathsFile != "", all)
	archived := windowed && a.past.archive != nil
	e = a.engine // as far as it knows what a question needs
	e.Store, e.Now = memory, now
	needs := e.Needs(q)
	if all {
		needs.Partitions, needs.Flows, needs.Only = past.Partitions, nil, false
	}
	if needed, err = recordsOf(q, w, windowed, &needs); err != nil {
		return e, needed, err
	}
	if archived && w.From < a.past.keptFrom(a.live) {
		e, err = a.pastEngine(ctx, want, past, held, now)
		return e, needed, err
	}
	if e, err = a.engineOf(memory, clock.Kernel.TAI()); err != nil || a.set == nil {
		return e, needed, err
	}
	parts, err := a.set.Fetch(ctx, held, needs, e.Limits.Bytes)
	if err != nil {
		return e, needed, err
	}
	for i := range parts {
		if archived && w.From < parts[i].KeptFrom {
			e, err = a.pastEngine(ctx, want, past, held, now)
			return e, needed, err
		}
	}
	if len(parts) > 0 {
		e.Store = e.Store.With(parts)
	}
	return e, needed, nil
}

// pastEngine is an engine for what archive and memories have. With query.ErrSentNothing it is one without the paths of the file.
func (a *asker) pastEngine(ctx context.Context, want archive.Wanted, needs query.Needs, held collect.Mask, now int64) (query.Engine, error) {
	old, err := a.past.view(ctx, a.live, want, needs, held, a.set)
	if err != nil {
		return query.Engine{}, err
	}
	e, err := a.engineOf(old, now)
	if e.Names == nil {
		e.Names = a.past.names()
	}
	return e, err
}

// present is an engine for the store as it is now.
func (a *asker) present() (query.Engine, error) { return a.engineOf(a.view(), clock.Kernel.TAI()) }

func (a *asker) engineOf(s *store.Store, now int64) (query.Engine, error) {
	e := a.engine
	e.Store, e.Now = s, now
	if a.pathsFile != "" {
		paths, err := a.readPaths(e.Store)
		if err != nil {
			return e, err
		}
		e.Paths = paths
	}
	return e, nil
}

// readPaths reads the file of paths, again whenever the switches in the store have changed, which it names.
func (a *asker) readPaths(s *store.Store) (*query.FilePaths, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if names := s.Switches(); a.filePaths == nil || !slices.Equal(names, a.names) {
		p, err := query.ReadPaths(a.pathsFile, s)
		if err != nil {
			return nil, fmt.Errorf("collect.paths: %w", err)
		}
		a.filePaths, a.names = p, names
	}
	return a.filePaths, nil
}

// outcome classifies an answer for the metrics.
func outcome(err error) string {
	switch {
	case err == nil:
		return "answered"
	case errors.Is(err, query.ErrInvalid):
		return "invalid"
	case errors.Is(err, query.ErrNoRecords), errors.Is(err, query.ErrUnknownFlow):
		return "not_found"
	case errors.Is(err, query.ErrUnreached):
		return "unreached"
	case errors.Is(err, query.ErrTooCostly):
		return "too_costly"
	case errors.Is(err, context.DeadlineExceeded):
		return "late"
	case errors.Is(err, context.Canceled):
		return "given_up"
	}
	return "failed"
}
