package set

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/weirswitch/weir/telemetry/collect"
	"github.com/weirswitch/weir/telemetry/jetstream"
	"github.com/weirswitch/weir/telemetry/query"
	"github.com/weirswitch/weir/telemetry/record"
	"github.com/weirswitch/weir/telemetry/store"
)

// The patience with other members.
const (
	// silence is how long an answer may take, if the question has more than three times of it.
	silence = 3 * time.Second
	// again is the pause before a request that was refused for now.
	again = 20 * time.Millisecond
)

// partitionOf reads the partition that a subject names.
func partitionOf(subject string) (int, bool) {
	text := subject[strings.LastIndexByte(subject, '.')+1:]
	n, err := strconv.Atoi(text)
	return n, err == nil && n >= 0 && n < record.Partitions && subject == jetstream.Digests(n)
}

// Fetch gets what a question needs of the partitions that are not held, at most so many bytes of memory: beyond, the
// question is too costly. What cannot be had says why. Its errors are those of the question. held is what Holds said before the
// view was taken with which the answer is joined.
func (m *Member) Fetch(ctx context.Context, held collect.Mask, needs query.Needs, most int64) ([]store.Elsewhere, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var parts []store.Elsewhere
	for _, p := range needs.Partitions {
		if !held.Has(p) {
			parts = append(parts, store.Elsewhere{Part: store.Part{Partition: p}})
		}
	}
	wait := silence
	if end, ok := ctx.Deadline(); ok {
		wait = min(wait, time.Until(end)/3)
	}
	var left atomic.Int64
	left.Store(most)
	var fetching sync.WaitGroup
	for i := range parts {
		fetching.Go(func() {
			p := &parts[i]
			err := m.fetch(ctx, p, &needs, wait, &left)
			switch {
			case errors.Is(err, query.ErrTooCostly):
				cancel(err)
			case err != nil:
				*p = store.Elsewhere{Part: store.Part{Partition: p.Partition}, Unreached: err.Error()}
				m.counters.unreached.Add(1)
			}
		})
	}
	fetching.Wait()
	if ctx.Err() != nil {
		if cause := context.Cause(ctx); errors.Is(cause, query.ErrTooCostly) {
			return nil, cause
		}
		return nil, fmt.Errorf("the question was given up: %w", ctx.Err())
	}
	return parts, nil
}

// Why a partition could not be had.
var (
	errNoHolder = errors.New("no collector that has them is there")
	errSilent   = errors.New("the collector that has them did not answer in time")
	errAway     = errors.New("there is no connection to the other collectors")
	errLarge    = errors.New("the collector that has them has a record that is too large to be sent")
	errWrong    = errors.New("the collector that has them sent what cannot be read")
)

// fetch gets one partition, page by page.
func (m *Member) fetch(ctx context.Context, p *store.Elsewhere, needs *query.Needs, wait time.Duration, left *atomic.Int64) error {
	of := request{Version: version, Window: needs.Window, Batches: needs.Batches, Sinks: needs.Sinks, Flows: needs.Flows, Only: needs.Only}
	for {
		h, records, err := m.page(ctx, p.Partition, &of, wait)
		if err != nil {
			return err
		}
		if h.Part != nil {
			p.Part, p.Holder = *h.Part, h.Collector
		}
		p.KeptFrom = max(p.KeptFrom, h.KeptFrom)
		bytes, err := p.Add(records)
		if err != nil || !of.After.Set && h.Part == nil || h.More && h.After == of.After {
			m.counters.refused.Add(1)
			return errWrong
		}
		if left.Add(-bytes) < 0 {
			return fmt.Errorf("%w: the digests that other collectors have for it take too much memory: ask about fewer flows (prefix, src, dst, port) or a shorter window", query.ErrTooCostly)
		}
		if !h.More {
			return nil
		}
		of.After = h.After
	}
}

// page asks for one page. While a partition moves, it asks again.
func (m *Member) page(ctx context.Context, partition int, of *request, wait time.Duration) (*head, []byte, error) {
	data, err := json.Marshal(of)
	if err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	for {
		nc := m.conn()
		if nc == nil {
			return nil, nil, errAway
		}
		m.counters.asked.Add(1)
		answer, err := nc.RequestWithContext(ctx, jetstream.Digests(partition), data)
		switch {
		case errors.Is(err, nats.ErrNoResponders):
			return nil, nil, errNoHolder
		case ctx.Err() != nil:
			return nil, nil, errSilent
		case err != nil:
			return nil, nil, errAway
		}
		m.counters.received.Add(uint64(len(answer.Data)))
		h, records, err := parseAnswer(answer.Data, partition)
		switch {
		case err != nil || h.Refused == refusedInvalid:
			m.counters.refused.Add(1)
			return nil, nil, errWrong
		case h.Refused == "":
			return h, records, nil
		case h.Refused == refusedLarge:
			return nil, nil, errLarge
		}
		select {
		case <-ctx.Done():
			return nil, nil, errSilent
		case <-time.After(again):
		}
	}
}
