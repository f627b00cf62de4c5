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

// The bounds of a trace.
const (
	maxTraces   = 1000
	maxWait     = time.Minute
	lookAgain   = 2 * time.Millisecond
	takenEvery  = 10 * time.Millisecond // between two looks at what was captured
	pieceLength = 256 << 10             // bytes of packets in a piece of a capture, about
)

// errLooking refuses a second look at the packets.
var errLooking = errors.New("a trace or a capture is under way: wait for its end")

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
	if !n.looking.TryLock() {
		return nil, errLooking
	}
	defer n.looking.Unlock()
	tracer := pipeline.NewTracer(int(q.Count), func(b *packet.Batch, p *packet.Packet) bool { return f.Match(b.Data(p)) })
	n.sw.SetTracer(tracer)
	defer n.sw.SetTracer(nil)
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

// Capture sends copies of packets at an edge of a stage until ctx ends or there are enough.
func (n *Node) Capture(ctx context.Context, q *api.CaptureRequest, send func(*api.CaptureResponse) error) error {
	tap, err := n.edge(q)
	if err != nil {
		return err
	}
	f, err := filter.Parse(q.Filter)
	if err != nil {
		return err
	}
	if !n.looking.TryLock() {
		return errLooking
	}
	defer n.looking.Unlock()
	buffer := capture.NewBuffer(f, int(q.Truncate), n.config.Dataplane.FrameSize)
	if err := send(&api.CaptureResponse{Ports: n.portNames()}); err != nil {
		return err
	}
	tap.Take = buffer.Take
	n.sw.SetTracer(pipeline.NewTap(*tap))
	defer n.sw.SetTracer(nil)
	return n.sendCapture(ctx, q, buffer, send)
}

// edge finds the place in the graph that a capture is of.
func (n *Node) edge(q *api.CaptureRequest) (*pipeline.Tap, error) {
	t := &pipeline.Tap{}
	if q.Stage != "" {
		graph := n.config.Switch.Graph
		if t.Stage = slices.Index(graph, q.Stage); t.Stage < 0 {
			return nil, fmt.Errorf("the graph has no stage %q: there are %s", q.Stage, strings.Join(graph, ", "))
		}
	}
	i := slices.Index([]string{"before", "after", "dropped"}, q.Edge)
	if i < 0 && q.Edge != "" {
		return nil, fmt.Errorf("%q is no edge of a stage: choose before, after or dropped", q.Edge)
	}
	t.Edge = pipeline.Edge(max(i, 0))
	return t, nil
}

// sendCapture sends what comes until there is enough.
func (n *Node) sendCapture(ctx context.Context, q *api.CaptureRequest, buffer *capture.Buffer, send func(*api.CaptureResponse) error) error {
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
		for more := true; more && (q.Count == 0 || sent < q.Count); {
			r, length := &api.CaptureResponse{}, 0
			more = buffer.Drain(func(p *capture.Packet) bool {
				r.Packets = append(r.Packets, packetMessage(p, offset))
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
	}
	return nil
}

func packetMessage(p *capture.Packet, offset int64) *api.CapturedPacket {
	m := &api.CapturedPacket{TimeNs: p.Time - offset, Port: uint32(p.InPort), Length: p.WireLen, Data: slices.Clone(p.Data)}
	if p.Reason != 0 {
		m.Reason = p.Reason.String()
	}
	return m
}
