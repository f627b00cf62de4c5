package node

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/weirswitch/weir/control/api"
	"github.com/weirswitch/weir/control/capture"
	"github.com/weirswitch/weir/control/filter"
	"github.com/weirswitch/weir/pipeline"
	"github.com/weirswitch/weir/pipeline/clock"
	"github.com/weirswitch/weir/pipeline/packet"
)

// The bounds of a trace and of a capture.
const (
	maxTraces   = 1000
	maxWait     = time.Minute
	lookAgain   = 2 * time.Millisecond
	takenEvery  = 10 * time.Millisecond // between two drains of a capture's buffer
	pieceLength = 256 << 10             // bytes of packets in a piece of a capture, about
)

var errLooking = errors.New("a trace or a capture is under way: wait for its end")

// look has all workers take packets by a tracer, until done is called. Another one is refused, and then this one is in force.
func (n *Node) look(t *pipeline.Tracer) (done func(), err error) {
	n.looking.Lock()
	defer n.looking.Unlock()
	if n.looks {
		return nil, errLooking
	}
	n.looks = true
	n.sw.SetTracer(t)
	return func() {
		n.looking.Lock()
		defer n.looking.Unlock()
		n.looks = false
		n.sw.SetTracer(nil)
	}, nil
}

// Trace returns the path of some packets through the stages, in words. There is one trace
// or capture at a time.
func (n *Node) Trace(ctx context.Context, q *api.TraceRequest) (*api.TraceResponse, error) {
	if q.Count < 1 || q.Count > maxTraces {
		return nil, fmt.Errorf("%d packets: choose 1 to %d", q.Count, maxTraces)
	}
	if q.WaitNs < 0 || q.WaitNs > int64(maxWait) {
		return nil, fmt.Errorf("a wait of %v: choose up to %v", time.Duration(q.WaitNs), maxWait)
	}
	f, err := filter.Parse(q.Filter)
	if err != nil {
		return nil, err
	}
	tracer := pipeline.NewTracer(int(q.Count), func(b *packet.Batch, p *packet.Packet) bool { return f.Match(b.Data(p)) })
	done, err := n.look(tracer)
	if err != nil {
		return nil, err
	}
	defer done()
	wait := time.NewTimer(time.Duration(q.WaitNs))
	defer wait.Stop()
	for over := false; !over && len(tracer.Traces()) < int(q.Count); {
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-wait.C:
			over = true
		case <-time.After(lookAgain):
		}
	}
	names := n.portNames()
	r := &api.TraceResponse{}
	for _, tr := range tracer.Traces() {
		p := &api.TracedPacket{Port: names[tr.InPort], Length: tr.Length}
		for _, step := range tr.Steps {
			p.Steps = append(p.Steps, &api.TraceStep{Stage: step.Stage, Text: step.Text})
		}
		r.Packets = append(r.Packets, p)
	}
	return r, nil
}

// hasStage reports whether the graph has a stage now.
func (n *Node) hasStage(name string) bool {
	return slices.ContainsFunc(n.chain(), func(s pipeline.Named) bool { return s.Name == name })
}

// Capture sends copies of packets at an edge of a stage until ctx ends, which is no error,
// or there are enough. send is called by the calling goroutine.
func (n *Node) Capture(ctx context.Context, q *api.CaptureRequest, send func(*api.CaptureResponse) error) error {
	tap := pipeline.Tap{}
	if q.Stage != "" {
		if tap.Stage = q.Stage; !n.hasStage(q.Stage) {
			return fmt.Errorf("the graph has no stage %q: there are %s", q.Stage, strings.Join(n.inForce.Load().config.Switch.Graph, ", "))
		}
	}
	edge := slices.Index([]string{"before", "after", "dropped"}, q.Edge)
	if edge < 0 && q.Edge != "" {
		return fmt.Errorf("%q is no edge of a stage: choose before, after or dropped", q.Edge)
	}
	tap.Edge = pipeline.Edge(max(edge, 0))
	f, err := filter.Parse(q.Filter)
	if err != nil {
		return err
	}
	buffer := capture.NewBuffer(f, int(q.Truncate), n.pool.FrameSize())
	tap.Take = buffer.Take
	done, err := n.look(pipeline.NewTap(tap))
	if err != nil {
		return err
	}
	defer done()
	// What arrives once the client has this is captured.
	if err := send(&api.CaptureResponse{Ports: n.portNames()}); err != nil {
		return err
	}

	offset := clock.UTCOffset()
	look := time.NewTicker(takenEvery)
	defer look.Stop()
	sent, dropped := uint64(0), uint64(0)
	for q.Count == 0 || sent < q.Count {
		select {
		case <-ctx.Done():
			return nil // the client has enough
		case <-look.C:
		}
		went := q.Stage != "" && !n.hasStage(q.Stage)
		for more := true; more && (q.Count == 0 || sent < q.Count); {
			r, length := &api.CaptureResponse{}, 0
			more = buffer.Drain(func(p *capture.Packet) bool {
				m := &api.CapturedPacket{TimeNs: p.Time - offset, Port: uint32(p.InPort), Length: p.WireLen, Data: slices.Clone(p.Data)}
				if p.Reason != 0 {
					m.Reason = p.Reason.String()
				}
				r.Packets = append(r.Packets, m)
				length += len(p.Data)
				sent++
				return length < pieceLength && (q.Count == 0 || sent < q.Count)
			})
			r.Dropped = buffer.Dropped()
			if len(r.Packets) == 0 && r.Dropped == dropped {
				break
			}
			dropped = r.Dropped
			if err := send(r); err != nil {
				return err
			}
		}
		if went {
			return fmt.Errorf("stage %q has left the graph", q.Stage)
		}
	}
	return nil
}
