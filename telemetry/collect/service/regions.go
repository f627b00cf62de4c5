package service

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/weirswitch/weir/config"
	"github.com/weirswitch/weir/pipeline/clock"
	"github.com/weirswitch/weir/telemetry/collect"
	"github.com/weirswitch/weir/telemetry/query"
	"github.com/weirswitch/weir/telemetry/record"
	"github.com/weirswitch/weir/telemetry/store"
	"github.com/weirswitch/weir/telemetry/view/api"
)

// A question about several regions is answered as one about several partitions is: from the records of all of them, by one engine.
//
//	question ── askRegions ── POST /gather ──> a collector of each region ── gather ──> its records of the window, and what it lacks
//	                │                                                          └ memory, the other collectors of its set, the archive
//	                └─ one store ── Engine.Ask
//
// A region that cannot be had, or not in time, is named in the answer.

// region is one whose collectors are asked.
type region struct {
	name    string
	clients []*api.Client
	first   atomic.Int32 // index of the one that answered last

	asked, unreached, received atomic.Uint64
}

// newRegions makes clients, which reads the files of certificates.
func newRegions(c *config.Collect) (list []*region, err error) {
	var errs []error
	for i := range c.Regions {
		r := &c.Regions[i]
		of := &region{name: r.Name}
		for k, where := range r.Collectors {
			client, err := api.NewClient(where, r.TLS())
			if err != nil {
				errs = append(errs, fmt.Errorf("region[%d].collectors[%d]: %w", i, k, err))
				continue
			}
			of.clients = append(of.clients, client)
		}
		list = append(list, of)
	}
	return list, errors.Join(errs...)
}

// gatherHead is before the records, with its length. It travels as JSON.
type gatherHead struct {
	Version int        `json:"v"`
	Rest    store.Rest `json:"rest"`
}

// The bounds of what a region sends beside records, and of the time that it has.
const (
	maxGatherHead = 16 << 20
	// regionShare of a question's time is for regions: the rest is for the answer.
	regionShare = 2. / 3
	regionWait  = 30 * time.Second // where a question has no deadline
)

// askRegions answers from what all regions have, this collector among them.
func (a *asker) askRegions(ctx context.Context, q *query.Question) (any, error) {
	if err := q.Validate(); err != nil {
		return nil, err
	}
	wait := regionWait
	if end, ok := ctx.Deadline(); ok {
		wait = time.Duration(float64(time.Until(end)) * regionShare)
	}
	request := api.GatherRequest{Version: api.GatherVersion, Question: q, AllFlows: a.needsAllFlows(q), Time: wait}
	all := make([]store.Gathered, 1+len(a.regions))
	errs := make([]error, len(all))
	var left atomic.Int64 // bytes
	left.Store(a.past.bytes)
	gathering, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	var asking sync.WaitGroup
	asking.Go(func() {
		all[0].Region = a.name
		errs[0] = a.gatherOwn(gathering, &request, &all[0], &left)
	})
	for i, r := range a.regions {
		asking.Go(func() {
			all[i+1].Region = r.name
			errs[i+1] = r.gather(gathering, request, &all[i+1], &left)
		})
	}
	asking.Wait()
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("the question was given up: %w", err)
	}
	for i, err := range errs {
		if errors.Is(err, query.ErrTooCostly) {
			return nil, fmt.Errorf("region %s: %w", all[i].Region, err)
		}
		if err != nil {
			all[i].Unreached = err.Error()
		}
	}
	s, err := store.Regions(all, a.past.bytes, clock.Kernel.TAI())
	if errors.Is(err, store.ErrFull) {
		return nil, fmt.Errorf("%w: %w (limits.bytes): ask about fewer flows (prefix, src, dst, port) or a shorter window", query.ErrTooCostly, err)
	}
	if err != nil {
		return nil, err
	}
	for i, r := range a.regions {
		if all[i+1].Unreached != "" {
			r.unreached.Add(1)
		}
	}
	e, err := a.engineOf(s, clock.Kernel.TAI())
	if err != nil {
		return nil, err
	}
	answer, err := e.Ask(ctx, q)
	if errors.Is(err, query.ErrUnknownFlow) || errors.Is(err, query.ErrNoRecords) {
		var missing []string
		for _, m := range s.RegionsUnreached() {
			missing = append(missing, fmt.Sprintf("region %s: %s", m.Region, m.Unreached))
		}
		if missing != nil {
			return nil, fmt.Errorf("%w: %s; in the others: %w", query.ErrUnreached, strings.Join(missing, "; "), err)
		}
	}
	return answer, err
}

// needsAllFlows says that a question about some flows needs the digests of all: a plan joins flows. A region that does not know the plan cannot see that.
func (a *asker) needsAllFlows(q *query.Question) bool {
	e := a.engine
	e.Store = new(store.Store)
	needs := e.Needs(q)
	return q.Flow != "" && needs.Batches && needs.Flows == nil
}

// gatherOwn is what this collector has itself.
func (a *asker) gatherOwn(ctx context.Context, of *api.GatherRequest, into *store.Gathered, left *atomic.Int64) error {
	s, needed, rest, err := a.gather(ctx, of)
	if err != nil {
		return err
	}
	records := limited{left: left}
	if err := s.Write(&records, needed); err != nil {
		return err
	}
	into.Rest, into.Records = *rest, records.buffer.Bytes()
	return nil
}

// limited is a buffer that takes as much as is left.
type limited struct {
	buffer bytes.Buffer
	left   *atomic.Int64
}

func (l *limited) Write(b []byte) (int, error) {
	if l.left.Add(-int64(len(b))) < 0 {
		return 0, fmt.Errorf("%w: its records take too much memory (limits.bytes): ask about fewer flows (prefix, src, dst, port) or a shorter window", query.ErrTooCostly)
	}
	return l.buffer.Write(b)
}

// gather has one collector of the region after the other send its records, until one does. left bounds what all regions send.
func (r *region) gather(ctx context.Context, of api.GatherRequest, into *store.Gathered, left *atomic.Int64) error {
	r.asked.Add(1)
	of.Time /= time.Duration(len(r.clients))
	first := int(r.first.Load())
	var texts []string
	for i := range r.clients {
		n := (first + i) % len(r.clients)
		rest, records, err := gatherFrom(ctx, r.clients[n], &of, left)
		if err == nil {
			r.first.Store(int32(n))
			r.received.Add(uint64(len(records)))
			into.Rest, into.Records = *rest, records
			return nil
		}
		if errors.Is(err, query.ErrTooCostly) {
			return err
		}
		if texts = append(texts, err.Error()); ctx.Err() != nil {
			break
		}
	}
	return errors.New(strings.Join(texts, "; "))
}

func gatherFrom(ctx context.Context, c *api.Client, of *api.GatherRequest, left *atomic.Int64) (*store.Rest, []byte, error) {
	ctx, cancel := context.WithTimeout(ctx, of.Time)
	defer cancel()
	body, err := c.Gather(ctx, of)
	if ctx.Err() != nil {
		return nil, nil, fmt.Errorf("its collector did not answer within %v", of.Time.Round(time.Millisecond))
	}
	if err != nil {
		return nil, nil, err
	}
	defer body.Close()
	rest, records, err := readGathered(bufio.NewReader(body), left)
	if ctx.Err() != nil {
		return nil, nil, fmt.Errorf("its collector did not send all within %v", of.Time.Round(time.Millisecond))
	}
	return rest, records, err
}

// readGathered reads what gatherHandler writes.
func readGathered(b *bufio.Reader, left *atomic.Int64) (*store.Rest, []byte, error) {
	length, err := binary.ReadUvarint(b)
	if err != nil || length > maxGatherHead {
		return nil, nil, errors.New("its collector sent what cannot be read")
	}
	text, head := limited{left: left}, gatherHead{}
	if _, err = io.CopyN(&text, b, int64(length)); errors.Is(err, query.ErrTooCostly) {
		return nil, nil, err
	}
	if err == nil {
		err = json.Unmarshal(text.buffer.Bytes(), &head)
	}
	if err == nil && head.Version != api.GatherVersion {
		err = fmt.Errorf("it answers in version %d, and %d is understood: install the same version of Weir", head.Version, api.GatherVersion)
	}
	if err == nil {
		err = head.Rest.Validate()
	}
	if err != nil {
		return nil, nil, fmt.Errorf("its collector sent what cannot be read: %w", err)
	}
	records := limited{left: left}
	if _, err := io.Copy(&records, b); errors.Is(err, query.ErrTooCostly) {
		return nil, nil, err
	} else if err != nil {
		return nil, nil, fmt.Errorf("its collector ended before all records had come: %w", err)
	}
	return &head.Rest, records.buffer.Bytes(), nil
}

// everTime are records of all times.
var everTime = store.Window{From: math.MinInt64 / 4, To: math.MaxInt64 / 4}

// recordsOf is which records a question needs; windowed: about a window. of is what it needs of digests.
func recordsOf(q *query.Question, w store.Window, windowed bool, of *query.Needs) (needed store.Needed, err error) {
	needed = store.Needed{Kinds: recordKinds[q.Kind], Window: everTime, Digests: of.Window, Only: of.Only}
	if windowed {
		needed.Window = store.Window{From: w.From - margin, To: w.To + margin}
		needed.Digests = store.Window{From: of.Window.From - margin, To: of.Window.To + margin}
	}
	if !of.Batches {
		needed.Kinds = slices.DeleteFunc(slices.Clone(needed.Kinds), func(k record.Kind) bool { return k == record.PINT })
	}
	if of.Flows != nil {
		needed.Has, err = of.Flows.Has()
	}
	return needed, err
}

// gather is a view of what this collector's region has for a question, whichever regions it knows itself, which of its records are needed, and the rest.
func (a *asker) gather(ctx context.Context, of *api.GatherRequest) (s *store.Store, needed *store.Needed, rest *store.Rest, err error) {
	e, records, err := a.known(ctx, of.Question, of.AllFlows)
	if err != nil {
		return nil, nil, nil, err
	}
	w, windowed := windowOf(e.Store, e.Now, of.Question)
	if !windowed {
		w = everTime
	}
	return e.Store, &records, e.Store.Rest(w), nil
}

// gatherHandler serves what this collector's region has, to a collector that asks several.
func (s *Collector) gatherHandler() http.Handler {
	turns := make(chan struct{}, s.config.Limits.Queries)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		limits := &s.config.Limits
		of := new(api.GatherRequest)
		d := json.NewDecoder(http.MaxBytesReader(w, r.Body, limits.RequestBytes))
		d.DisallowUnknownFields()
		if err := d.Decode(of); err != nil || of.Version != api.GatherVersion || of.Question == nil || of.Time <= 0 {
			http.Error(w, fmt.Sprintf("not a request of version %d for records: %v", api.GatherVersion, err), http.StatusBadRequest)
			return
		}
		if err := of.Question.Validate(); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		ctx, cancel := context.WithTimeout(r.Context(), min(of.Time, limits.QueryTime))
		defer cancel()
		end, _ := ctx.Deadline()
		_ = http.NewResponseController(w).SetWriteDeadline(end.Add(time.Second)) // so that a reason gets there
		select {
		case turns <- struct{}{}:
			defer func() { <-turns }()
		case <-ctx.Done():
			http.Error(w, "too many questions are being answered: ask again later", http.StatusServiceUnavailable)
			return
		}
		began := time.Now()
		view, needed, rest, err := s.asker.gather(ctx, of)
		s.metrics.Queried("gather", outcome(err), time.Since(began))
		switch {
		case errors.Is(err, query.ErrTooCostly):
			http.Error(w, err.Error(), http.StatusRequestEntityTooLarge)
			return
		case err != nil:
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		text, err := json.Marshal(gatherHead{api.GatherVersion, *rest})
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/octet-stream")
		out := bufio.NewWriterSize(w, 64<<10)
		_, err = out.Write(append(binary.AppendUvarint(nil, uint64(len(text))), text...))
		if err == nil {
			err = view.Write(out, needed)
		}
		if err = errors.Join(err, out.Flush()); err != nil {
			s.log.Info("records for another region were not sent whole", zap.Error(err))
			panic(http.ErrAbortHandler) // so that the other side sees it, too
		}
	})
}

// Regions implements web.Source.
func (s *source) Regions() (list []collect.RegionStatus) {
	for _, r := range s.asker.regions {
		list = append(list, collect.RegionStatus{Name: r.name, Asked: r.asked.Load(), Unreached: r.unreached.Load(), ReceivedBytes: r.received.Load()})
	}
	return list
}
