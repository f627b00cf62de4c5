package lab

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/weirswitch/weir/internal/tomlfile"
)

// defaultCutAt is the share of a load after which its cable is cut.
const defaultCutAt = 0.5

// cutting is the progress of a load during which a cable is cut: once a share of it has arrived. It comes back with mend, behind the load.
type cutting struct {
	Progress
	at    float64
	cut   func() error
	once  sync.Once
	done  chan struct{} // closed behind the cut
	err   error
	begun atomic.Bool // the cut
}

// Begin implements Progress.
func (c *cutting) Begin(what string, total int64) Meter {
	return &cutMeter{Meter: c.Progress.Begin(what, total), cutting: c, threshold: max(1, int64(c.at*float64(total)))}
}

// cutMeter cuts once so much was counted.
type cutMeter struct {
	Meter
	*cutting
	threshold int64
	counted   atomic.Int64
}

// Add implements Meter. The cut is not waited for: it may be the receiver that calls.
func (m *cutMeter) Add(n int64) {
	m.Meter.Add(n)
	if m.counted.Add(n) >= m.threshold {
		m.once.Do(func() {
			m.begun.Store(true)
			go func() {
				m.err = m.cut()
				close(m.done)
			}()
		})
	}
}

// Done implements Meter.
func (m *cutMeter) Done() { m.Meter.Done() }

// cutEnds are the two ends of a cable in the file, by one of them; of one with a relay the outer ones.
func (c *Config) cutEnds(endpoint string) []string {
	for _, cable := range c.Cables() {
		if slices.Contains(cable[:], endpoint) {
			return cable[:]
		}
	}
	return nil
}

// cuttingOf prepares the cut of a load's cable.
func (l *Lab) cuttingOf(t *Traffic, p Progress) *cutting {
	ends := l.config.cutEnds(t.Cut)
	return &cutting{Progress: p, at: t.CutAt, done: make(chan struct{}), cut: func() error {
		var errs []error
		for _, e := range ends {
			end := l.cableEnd(e)
			errs = append(errs, end.ns.SetDown(end.iface))
		}
		return errors.Join(errs...)
	}}
}

// mend ends the cut behind the load, and waits until the cable carries packets again.
func (l *Lab) mend(ctx context.Context, t *Traffic, c *cutting) error {
	if !c.begun.Load() {
		return fmt.Errorf("the load ended before so much had arrived that %s was to be cut", t.Cut)
	}
	<-c.done
	errs := []error{c.err}
	ends := l.config.cutEnds(t.Cut)
	for _, e := range ends {
		end := l.cableEnd(e)
		errs = append(errs, end.ns.SetUp(end.iface))
	}
	for _, e := range ends {
		end := l.cableEnd(e)
		errs = append(errs, end.ns.AwaitUp(context.WithoutCancel(ctx), end.iface, upWait))
	}
	return errors.Join(errs...)
}

// isCut reports whether a cable with an endpoint is cut during some load: of one with a relay either half.
func (c *Config) isCut(endpoint string) bool {
	node, _ := splitEndpoint(endpoint)
	for i := range c.Traffic {
		if c.Traffic[i].Cut == "" {
			continue
		}
		ends := c.cutEnds(c.Traffic[i].Cut)
		if slices.Contains(ends, endpoint) {
			return true
		}
		for j := range c.Relays {
			if r := &c.Relays[j]; r.Name == node && r.link != nil && slices.Contains(ends, r.link.Endpoints[0]) {
				return true
			}
		}
	}
	return false
}

// mostCut is how many packets of the loads with a cut can have been on their way at it: of TCP as many as both buffers of each stream hold, of the shortest full segments.
func (c *Config) mostCut() (most uint64) {
	const leastSegment = 536
	for i := range c.Traffic {
		t := &c.Traffic[i]
		switch {
		case t.Cut == "" && !slices.ContainsFunc(c.Traffic, func(o Traffic) bool { return o.Cut != "" && o.Group != "" && o.Group == t.Group }):
		case t.Kind == KindTCP:
			most += uint64(t.Streams) * uint64(4*t.Window) / leastSegment
		default:
			most += uint64(t.Window)
		}
	}
	return most
}

func (c *Config) validateCut(f *faults, key string, t *Traffic) {
	if t.Cut == "" {
		if t.CutAt != 0 {
			f.add("%s.cut_at: nothing is cut: name an end of a cable in cut, or leave it out", key)
		}
		return
	}
	var known []string // ends of cables between switches: a host would forget its addresses
	for _, l := range c.Links {
		if !slices.ContainsFunc(l.Endpoints, func(e string) bool { return c.host(e) != nil }) {
			known = append(known, l.Endpoints...)
		}
	}
	if !slices.Contains(known, t.Cut) {
		f.add("%s.cut: %q is no end of a cable between switches: %s", key, t.Cut, tomlfile.Suggest(t.Cut, known))
	}
	if i := slices.IndexFunc(c.Traffic, func(o Traffic) bool { return o.Cut != "" && o.Group != "" && o.Group == t.Group }); i >= 0 && t != &c.Traffic[i] {
		f.add("%s.cut: traffic[%d] of the same group cuts a cable already: keep one of them", key, i)
	}
	if !(t.CutAt >= 0 && t.CutAt < 1) {
		f.add("%s.cut_at: %g: choose the share of the load after which the cable is cut, above 0 and below 1", key, t.CutAt)
	}
}
