package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"strings"
	"time"

	"github.com/weirswitch/weir/control"
	"github.com/weirswitch/weir/control/api"
	"github.com/weirswitch/weir/telemetry/query"
	queries "github.com/weirswitch/weir/telemetry/view/api"
	"github.com/weirswitch/weir/telemetry/view/text"
)

// pintViews are the views of weir ctl show that digests answer: the questions of weir query, to one switch.
func pintViews() (list []view) {
	for _, v := range []struct {
		name, short string
		kind        query.Kind
		measured    string // of PintReport.Measured, what to show next to the answer
	}{
		{"paths", "The paths of flows that end here, decoded from PINT's digests", query.KindPath, ""},
		{"latency", "The latency of the switches that flows passed which end here, next to what this switch measured itself", query.KindLatency, "hop_latency"},
		{"congestion", "The use of links and queues that flows met, next to what this switch measured itself", query.KindCongestion, "queue_occupancy"},
		{"loops", "Flows whose packets were found to loop", query.KindLoops, ""},
	} {
		ask := func(ctx context.Context, c *control.Client, o *ctlOptions) (json.RawMessage, func(io.Writer) error, error) {
			q := &query.Question{Kind: v.kind, Limit: o.limit}
			if err := o.question(q); err != nil {
				return nil, nil, usageError(err)
			}
			return askPint(ctx, c, q, v.measured)
		}
		list = append(list, view{name: v.name, short: v.short, askFlows: ask})
	}
	return list
}

// question reads --flow and --limit.
func (o *ctlOptions) question(q *query.Question) error {
	if o.limit < 0 || o.limit > query.MaxLimit {
		return fmt.Errorf("--limit %d: choose a number of flows up to %d, or 0 for all of these", o.limit, query.MaxLimit)
	}
	if o.limit == 0 {
		q.Limit = query.MaxLimit
	}
	port, isPort := strings.CutPrefix(o.flow, ":")
	switch end, err := netip.ParseAddrPort(o.flow); {
	case strings.Contains(o.flow, ">"):
		q.Flow = o.flow
	case isPort:
		q.Port = port
	case err == nil:
		q.Prefix, q.Port = end.Addr().String(), fmt.Sprint(end.Port())
	default:
		q.Prefix = o.flow
	}
	if q.Validate() != nil {
		return fmt.Errorf("--flow %q: write an address, a prefix, \":80\", an address with a port, or a flow as \"10.0.0.1:1234 > 10.0.0.2:80 udp\"", o.flow)
	}
	return nil
}

// askPint asks a switch a question, and what it measured itself. That it has no digest of the flows is an answer.
func askPint(ctx context.Context, c *control.Client, q *query.Question, measured string) (json.RawMessage, func(io.Writer) error, error) {
	r, err := c.Pint(ctx, &api.PintRequest{})
	if err != nil {
		return nil, nil, err
	}
	message, err := queries.NewQuestion(q)
	if err != nil {
		return nil, nil, err
	}
	a, err := c.Ask(ctx, &queries.AskRequest{Question: message})
	err = queries.Reason(err)
	if err != nil && !errors.Is(err, query.ErrNoRecords) {
		return nil, nil, err
	}
	r.AddAnswer(a)
	return control.JSON(r), func(w io.Writer) error {
		if err := printDigests(w, r, q, a, err); err != nil {
			return err
		}
		return printMeasured(w, r, measured)
	}, nil
}

// printDigests prints an answer, or why there is none.
func printDigests(w io.Writer, r *api.PintReport, q *query.Question, a *queries.Answer, none error) error {
	switch {
	case none == nil:
		answer, err := a.Value()
		if err != nil {
			return err
		}
		return text.Write(w, q.Kind, answer)
	case q.Kind == query.KindLoops:
		_, err := fmt.Fprintln(w, "no packet was found to loop")
		return err
	case !r.Sink:
		_, err := fmt.Fprintln(w, "nothing ends here: the switch has no edge port (stages.pint.edge)")
		return err
	case q.Flow == "" && q.Prefix == "" && q.Port == "":
		_, err := fmt.Fprintln(w, "no packet with a digest for this has ended here, or less than two seconds ago")
		return err
	}
	_, err := fmt.Fprintln(w, none)
	return err
}

// printMeasured prints what the switch measured itself of a value.
func printMeasured(w io.Writer, r *api.PintReport, of string) error {
	t := text.NewTable("MEASURED HERE", "OF", ">MEDIAN", ">90 %", ">99 %", ">MOST", ">PACKETS")
	for _, m := range r.Measured {
		quantity := func(x float64) string {
			if of == "hop_latency" {
				return fmt.Sprint(time.Duration(x).Round(10 * time.Nanosecond))
			}
			return fmt.Sprintf("%.4g", x)
		}
		if m.Value == of {
			t.Row(m.Port, m.Value, quantity(m.Median), quantity(m.P90), quantity(m.P99), quantity(m.Highest), m.Packets)
		}
	}
	if t.Empty() {
		return nil
	}
	if _, err := fmt.Fprintln(w); err != nil {
		return err
	}
	return t.Write(w)
}
