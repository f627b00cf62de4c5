package lab

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/weirswitch/weir/dataplane/lab/netns"
)

// Stack is an end of a load that is not in a lab: a namespace with a kernel IP stack, and
// an address of one of its interfaces.
type Stack struct {
	Namespace *netns.Namespace
	Address   netip.Addr
}

// Carry carries out a load of the kind ping, tcp or udp between two stacks that the caller has made, as
// [Lab.Traffic] does between the hosts of a lab. Keys of t that are zero have the defaults of a lab file;
// From and To only name the result. Trouble with the load itself is in the result's Fault.
func Carry(ctx context.Context, t Traffic, from, to Stack) Result {
	c := Config{Traffic: []Traffic{t}}
	c.setDefaults()
	t = c.Traffic[0]
	family := 6
	if from.Address.Is4() {
		family = 4
	}
	r := Result{Kind: t.Kind, From: t.From, To: t.To, Family: family}
	load := load{
		Traffic: t, source: from.Namespace, sink: to.Namespace, sourceIP: from.Address, sinkIP: to.Address,
		progress: silent{}, drainWait: drainWait,
	}
	if t.Kind == KindFlows {
		r.Fault = "a load of kind flows needs a lab"
		return r
	}
	load.carry(ctx, &r)
	return r
}

// carry carries out the load by its kind.
func (l *load) carry(ctx context.Context, r *Result) {
	r.Began = time.Now()
	var err error
	switch l.Kind {
	case KindPing:
		err = l.ping(ctx, r)
	case KindTCP:
		err = l.tcp(ctx, r)
	case KindUDP:
		err = l.udp(ctx, r)
	case KindFlows:
		err = l.flows(ctx, r)
	default:
		err = fmt.Errorf("traffic of unknown kind %q", l.Kind)
	}
	r.Ended = time.Now()
	if r.Seconds == 0 {
		r.Seconds = r.Ended.Sub(r.Began).Seconds()
	}
	if err != nil {
		r.ended(ctx, err)
	}
}

// ended notes why a load ended early.
func (r *Result) ended(ctx context.Context, err error) {
	if r.Interrupted = ctx.Err() != nil && errors.Is(err, ctx.Err()); !r.Interrupted {
		r.Fault = err.Error()
	}
}
