package main

import (
	"errors"
	"io"
	"math"
	"strings"
	"testing"

	"github.com/weirswitch/weir/config"
	"github.com/weirswitch/weir/control/api"
	"github.com/weirswitch/weir/dataplane/port"
	"github.com/weirswitch/weir/p4/tables"
)

// TestQueueRates: all that is wrong with --queue-rate is said, before BMv2 is looked for.
func TestQueueRates(t *testing.T) {
	file := writeFile(t, p4Switch1)
	for _, c := range []struct {
		flags []string
		says  []string
	}{
		{[]string{"--queue-rate", "middle=5"}, []string{`port "middle" is not defined: define [[port]] name = "middle" or correct the name`}},
		{[]string{"--queue-rate", "left=0,right=-1"}, []string{`port "left": 0 packets per second: choose 1 to 1000000000`, `port "right": -1 packets`}},
		{[]string{"--queue-rate", "left=1", "--queue-rate", "right=1000000001"}, []string{`port "right": 1000000001 packets per second: choose`}},
		{[]string{"--queue-rate", "left"}, []string{"left must be formatted as key=value"}},
		{[]string{"--queue-rate", "left=fast"}, []string{"fast"}},
	} {
		status, _, errs := weir(append([]string{"p4", "switch", "-c", file}, c.flags...)...)
		if status != statusUsage {
			t.Errorf("%q: status %d", c.flags, status)
		}
		for _, want := range c.says {
			if !strings.Contains(errs, want) {
				t.Errorf("%q: %s, want it to say %s", c.flags, errs, want)
			}
		}
	}
	fine := &config.Config{Ports: []port.Config{{Name: "left"}, {Name: "right"}}}
	if err := (queueRates{"left": 1, "right": 1_000_000_000}).check(fine); err != nil || portNumber(fine, "right") != 1 {
		t.Error(err)
	}
}

// TestMeasuredLatency: a port's cells become what a Weir switch says of its own histogram.
func TestMeasuredLatency(t *testing.T) {
	cells := make([]uint64, tables.LatencyCells)
	for ns := uint64(1000); ns <= 100_000; ns += 1000 {
		cells[tables.LatencyCell(3, ns)]++
	}
	m := measuredLatency("p3", tables.LatenciesOf(cells, 3))
	if m.Port != "p3" || m.Value != "hop_latency" || m.Packets != 100 {
		t.Errorf("%+v", m)
	}
	for _, q := range []struct{ got, want float64 }{{m.Median, 50_500}, {m.P90, 90_500}, {m.P99, 99_500}, {m.Highest, 100_000}} {
		if math.Abs(q.got/q.want-1) > 0.125 {
			t.Errorf("%v ns, want %v: %+v", q.got, q.want, m)
		}
	}
	if none := measuredLatency("p4", tables.LatenciesOf(cells, 4)); none.Packets != 0 {
		t.Errorf("a port that nothing left by: %+v", none)
	}
}

// TestSettled: the report is taken until it adds up, and as it is when that never comes or it cannot be taken.
func TestSettled(t *testing.T) {
	taken := 0
	r, err := settled(func() (*api.ReportResponse, error) {
		taken++
		return &api.ReportResponse{Received: uint64(taken), Balanced: taken == 3}, nil
	})
	if err != nil || !r.Balanced || r.Received != 3 || taken != 3 {
		t.Errorf("%+v, %v, taken %d times", r, err, taken)
	}
	if r, err = settled(func() (*api.ReportResponse, error) { return new(api.ReportResponse), nil }); err != nil || r.Balanced {
		t.Errorf("packets were lost: %+v, %v", r, err)
	}
	if r, err = settled(func() (*api.ReportResponse, error) { return nil, io.ErrUnexpectedEOF }); r != nil || !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("no report: %+v, %v", r, err)
	}
}
