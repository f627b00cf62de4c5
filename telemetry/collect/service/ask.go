package service

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"connectrpc.com/connect"

	"github.com/weirswitch/weir/config"
	"github.com/weirswitch/weir/dataplane/lab/labpath"
	"github.com/weirswitch/weir/pipeline/clock"
	"github.com/weirswitch/weir/telemetry/collect"
	"github.com/weirswitch/weir/telemetry/pint"
	"github.com/weirswitch/weir/telemetry/pint/plan"
	"github.com/weirswitch/weir/telemetry/query"
	"github.com/weirswitch/weir/telemetry/record"
	"github.com/weirswitch/weir/telemetry/store"
	"github.com/weirswitch/weir/telemetry/view/api"
)

// asker answers questions from the records in memory, or has another collector answer.
type asker struct {
	live       *store.Live
	engine     query.Engine // without Store and Now
	pathsFile  string       // whose paths depend on the switches that sent records; empty: none
	partitions collect.Partitions
	peers      []*api.Client

	mu        sync.Mutex
	seen      *store.Store // shared by questions that come in quick succession
	at        time.Time
	filePaths *query.FilePaths
	names     []string // of the switches for which filePaths were read
}

// newAsker reads the files that the configuration names.
func newAsker(c *config.Collect, live *store.Live) (*asker, error) {
	a := &asker{
		live: live, pathsFile: c.Collect.Paths, partitions: c.Partitions,
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
	for i, url := range c.Partitions.Peers {
		var tls api.ClientTLS // the collector's own, where the peer has one
		if strings.HasPrefix(url, "https:") {
			tls = api.ClientTLS{Certificate: c.TLS.Certificate, Key: c.TLS.Key, CA: c.TLS.CA}
		}
		p, err := api.NewClient(url, tls)
		if err != nil {
			errs = append(errs, fmt.Errorf("partitions.peers[%d]: %w", i, err))
		}
		a.peers = append(a.peers, p)
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

func (a *asker) ask(ctx context.Context, q *query.Question) (any, error) {
	if owner, elsewhere := a.owner(q); elsewhere {
		answer, err := a.askPeer(ctx, owner, q)
		if !errors.Is(err, errNoPeer) || q.Kind != query.KindFrequency {
			return answer, err
		}
	}
	e, err := a.present()
	if err != nil {
		return nil, err
	}
	return e.Ask(ctx, q)
}

// present is an engine for the store as it is now.
func (a *asker) present() (query.Engine, error) {
	e := a.engine
	e.Store, e.Now = a.view(), clock.Kernel.TAI()
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

// ofDigests are the kinds that digests of one flow answer.
var ofDigests = []query.Kind{query.KindPath, query.KindLatency, query.KindCongestion, query.KindLoops, query.KindFrequency}

// owner finds out which collector has the digests of the flow that a question is about.
func (a *asker) owner(q *query.Question) (index int, elsewhere bool) {
	if a.partitions.Of <= 1 || q.Flow == "" || !slices.Contains(ofDigests, q.Kind) {
		return 0, false
	}
	key, err := query.ParseKey(q.Flow)
	if err != nil {
		return 0, false // the engine says what is wrong
	}
	flow := pint.FlowKey(key)
	index = a.partitions.Owner(int(flow.Partition(record.Partitions)))
	return index, index != a.partitions.Index
}

// errNoPeer says that a question cannot be asked where its digests are.
var errNoPeer = errors.New("the digests of this flow are with another collector")

// forwardedHeader marks a question that another collector passed on.
const forwardedHeader = "Weir-Forwarded"

type forwardedKey struct{}

// forwarded notes in a request's context that another collector passed it on.
func forwarded(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get(forwardedHeader) != "" {
			r = r.WithContext(context.WithValue(r.Context(), forwardedKey{}, true))
		}
		next.ServeHTTP(w, r)
	})
}

// askPeer has the owner of a flow's digests answer.
func (a *asker) askPeer(ctx context.Context, owner int, q *query.Question) (any, error) {
	if a.peers == nil {
		return nil, fmt.Errorf("%w: ask collector %d of %d, or name all in [partitions] peers", errNoPeer, owner, a.partitions.Of)
	}
	if ctx.Value(forwardedKey{}) != nil {
		return nil, fmt.Errorf("collector %d was asked as the one that has the flow's digests, and is not: give all collectors the same [partitions] of and peers, and an index each", a.partitions.Index)
	}
	ctx, call := connect.NewClientContext(ctx)
	call.RequestHeader().Set(forwardedHeader, "1")
	answer, err := a.peers[owner].Ask(ctx, q)
	if err != nil {
		return nil, fmt.Errorf("collector %d, which has the flow's digests: %w", owner, err)
	}
	return answer, nil
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
	case errors.Is(err, query.ErrTooCostly):
		return "too_costly"
	case errors.Is(err, context.DeadlineExceeded):
		return "late"
	case errors.Is(err, context.Canceled):
		return "given_up"
	}
	return "failed"
}
