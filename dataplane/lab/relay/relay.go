package relay

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// DropReason is the reason under which dropped packets are reported.
const DropReason = "relay"

// Report is what a relay says when it ends, in the form of a switch's report.
type Report struct {
	Name      string            `json:"name"`
	Ports     []PortReport      `json:"ports"`
	Received  uint64            `json:"received"`
	Forwarded uint64            `json:"forwarded"`
	Dropped   map[string]uint64 `json:"dropped"`
	Balanced  bool              `json:"balanced"`
}

// PortReport is one port of a Report.
type PortReport struct {
	Name        string `json:"name"`
	Driver      string `json:"driver"`
	Mode        string `json:"mode"`
	Queues      int    `json:"queues"`
	Received    uint64 `json:"received"`
	Transmitted uint64 `json:"transmitted"`
	RxDropped   uint64 `json:"rx_dropped"` // found the socket's buffer full
}

// Run relays between two interfaces of the calling thread's network namespace,
// which all threads of the process share, until ctx ends; then it sends what is
// in flight. It calls ready as soon as it relays.
func Run(ctx context.Context, c *Config, ready func()) (*Report, error) {
	if err := c.Validate(); err != nil {
		return nil, fmt.Errorf("relay %s: %w", c.Name, err)
	}
	var sockets [2]*socket
	for i, port := range c.Ports {
		s, err := openSocket(port)
		if err != nil {
			return nil, fmt.Errorf("relay %s: port %s: %w", c.Name, port, err)
		}
		defer s.close()
		sockets[i] = s
	}
	ready()
	var lines [2]*line
	failures := make(chan error, 2)
	for i := range lines {
		lines[i] = newLine(c, i)
		go func() { failures <- relay(ctx, lines[i], sockets[i], sockets[1-i]) }()
	}
	err := errors.Join(<-failures, <-failures)
	r := &Report{Name: c.Name, Dropped: map[string]uint64{}, Balanced: true}
	for i, l := range lines {
		missed, statsErr := sockets[i].missed()
		err = errors.Join(err, statsErr)
		r.Ports = append(r.Ports, PortReport{
			Name: c.Ports[i], Driver: "packet", Mode: "sockets", Queues: 1, Received: l.received, Transmitted: lines[1-i].sent, RxDropped: missed,
		})
		r.Received += l.received
		r.Forwarded += l.sent
		r.Dropped[DropReason] += l.dropped
		r.Balanced = r.Balanced && l.received == l.sent+l.dropped
	}
	if c.Truth != "" {
		text, encodeErr := json.Marshal(truth(c, lines))
		err = errors.Join(err, encodeErr, os.WriteFile(c.Truth, text, 0o644))
	}
	return r, err
}

// idle is how long a direction waits for packets before it looks whether it is
// to end.
const idle = 20 * time.Millisecond

// relay carries one direction.
func relay(ctx context.Context, l *line, from, to *socket) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	// The kernel otherwise lets sleepers wake up to 50 us late, to save power.
	_ = unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0)
	for {
		now := realtime()
		for len(l.queue) > 0 && l.queue[0].due <= now {
			p := l.queue.pop()
			now = realtime()
			sent, err := to.send(p.frame)
			switch {
			case err != nil:
				return err
			case sent:
				l.leave(&p, now)
			default:
				l.drop(p.flow)
			}
		}
		wait := idle
		if len(l.queue) > 0 {
			wait = min(wait, l.queue[0].due-realtime())
		}
		got, err := from.receive(max(wait, 0), l.arrive)
		if err != nil {
			return err
		}
		if !got && len(l.queue) == 0 && ctx.Err() != nil {
			return nil
		}
	}
}

// realtime reads the clock that the kernel stamps arriving packets with.
func realtime() time.Duration { return time.Duration(time.Now().UnixNano()) }
