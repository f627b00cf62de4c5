package collect

import (
	"context"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/weirswitch/weir/telemetry/collect"
	"github.com/weirswitch/weir/telemetry/record"
)

// shared is how two collectors fared beside one, each reading a stream that is there already.
type shared struct {
	one       took
	both      took   // at the same time
	apart     []took // one after the other, as on separate machines
	digests   []int  // that each has
	exclusive bool   // no record of digests went to two
}

// share has one collector read a stream of digests, then two at the same time, then each of the two alone.
func share(ctx context.Context, folder string, messages []message) (s shared, err error) {
	t, err := newTransport(folder)
	if err != nil {
		return s, err
	}
	defer t.close()
	// The first collector makes the stream.
	a, err := newApplier()
	if err != nil {
		return s, err
	}
	c, stop := t.start(ctx, collect.DefaultPartitions(), a)
	<-c.Ready()
	stop()
	if err := t.publish(ctx, messages); err != nil {
		return s, err
	}
	parts := []collect.Partitions{{Index: 0, Of: 2}, {Index: 1, Of: 2}}
	read := func(p ...collect.Partitions) (took, error) {
		return timed(func() error { return t.read(ctx, messages, p) })
	}
	if s.one, err = read(collect.DefaultPartitions()); err != nil {
		return s, err
	}
	if s.both, err = read(parts...); err != nil {
		return s, err
	}
	total := 0
	for _, p := range parts {
		alone, err := read(p)
		if err != nil {
			return s, err
		}
		s.apart = append(s.apart, alone)
		n := 0
		for i := range messages {
			if p.Owner(int(messages[i].header.Instance)) == p.Index {
				n += messages[i].digests
			}
			total += messages[i].digests
		}
		s.digests = append(s.digests, n)
	}
	s.exclusive = 2*(s.digests[0]+s.digests[1]) == total
	return s, nil
}

// read has collectors of their partitions each read what is theirs.
func (t *transport) read(ctx context.Context, messages []message, parts []collect.Partitions) error {
	var reading errgroup.Group
	for _, p := range parts {
		want := 0
		for i := range messages {
			if h := &messages[i].header; h.Kind != record.PINT || p.Owner(int(h.Instance)) == p.Index {
				want++
			}
		}
		a, err := newApplier()
		if err != nil {
			return err
		}
		_, stop := t.start(ctx, p, a)
		reading.Go(func() error {
			defer stop()
			return a.arrived(ctx, want)
		})
	}
	return reading.Wait()
}

// last is the time of two that take as long as the longer one.
func (s *shared) last() time.Duration { return max(s.apart[0].wall, s.apart[1].wall) }
