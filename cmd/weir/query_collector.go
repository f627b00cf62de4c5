package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/weirswitch/weir/telemetry/query"
	"github.com/weirswitch/weir/telemetry/view/api"
	"github.com/weirswitch/weir/telemetry/view/text"
)

// queryCollector asks a running collector.
type queryCollector struct {
	url     string
	tls     api.ClientTLS
	timeout time.Duration
	*api.Client
}

// collectorFlags are of a collector alone.
var collectorFlags = []string{"collector", "tls-ca", "tls-cert", "tls-key", "tls-name", "timeout"}

func (c *queryCollector) add(cmd *cobra.Command) {
	p := cmd.PersistentFlags()
	p.StringVar(&c.url, "collector", api.DefaultURL, "the collector's `URL`: http://, https:// or unix:///PATH of its socket")
	p.StringVar(&c.tls.CA, "tls-ca", "", "the certificates that sign the collector's (`FILE` in PEM), for https")
	p.StringVar(&c.tls.Certificate, "tls-cert", "", "the client's certificate (`FILE` in PEM)")
	p.StringVar(&c.tls.Key, "tls-key", "", "its key (`FILE` in PEM)")
	p.StringVar(&c.tls.Name, "tls-name", "", "the `NAME` in the collector's certificate; default: the URL's host")
	p.DurationVar(&c.timeout, "timeout", 30*time.Second, "how long to wait for a collector's answer")
	cmd.MarkFlagsRequiredTogether("tls-ca", "tls-cert", "tls-key")
}

// unused refuses the flags that a folder has no use for.
func (*queryCollector) unused(cmd *cobra.Command) error {
	return refuseFlags(cmd, collectorFlags, "is for a collector: leave out --records")
}

// client finds out how to talk to the collector.
func (c *queryCollector) client() (*queryCollector, error) {
	if strings.HasPrefix(c.url, "https:") && c.tls.CA == "" {
		return nil, errors.New("--collector: https needs certificates: name them with --tls-ca, --tls-cert and --tls-key")
	}
	var err error
	c.Client, err = api.NewClient(c.url, c.tls)
	return c, err
}

// serverEarlier is by how much a collector may be earlier than the client to find the client's time over: it is sent in whole milliseconds.
const serverEarlier = 20 * time.Millisecond

// late says which time ran out.
func (c *queryCollector) late(ctx context.Context, err error) error {
	end, _ := ctx.Deadline()
	switch {
	case err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded), errors.Is(err, context.DeadlineExceeded) && time.Until(end) < serverEarlier:
		return fmt.Errorf("the collector at %s did not answer within %v: see whether it hangs, or raise --timeout", c.url, c.timeout)
	case errors.Is(err, context.DeadlineExceeded): // the collector's own limit
		return fmt.Errorf("%w; --timeout %v has no effect on this limit", err, c.timeout)
	}
	return err
}

// Ask implements querySource.
func (c *queryCollector) Ask(ctx context.Context, q *query.Question) (any, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	answer, err := c.Client.Ask(ctx, q)
	return answer, c.late(ctx, err)
}

// Watch implements querySource.
func (c *queryCollector) Watch(ctx context.Context, q *query.Question, interval time.Duration, each func(any, error) error) error {
	return c.Client.Watch(ctx, q, interval, each)
}

// Footer implements querySource: a collector's counts are in weir query collector.
func (*queryCollector) Footer(io.Writer) error { return nil }

func newQueryCollectorCommand(o *queryOptions) *cobra.Command {
	return &cobra.Command{
		Use: "collector", Short: "The collector's status: its stream, its memory, and when each switch last sent", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			err := refuseFlags(cmd, []string{"records", "parquet", "watch"}, "is for questions, and this is none: leave it out")
			client, err2 := o.collector.client()
			if err := errors.Join(err, o.records.unused(cmd), err2); err != nil {
				return usageError(err)
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), o.collector.timeout)
			defer cancel()
			status, err := client.Collector(ctx, &api.CollectorRequest{})
			if err != nil {
				return client.late(ctx, api.Reason(err))
			}
			if !o.asJSON {
				return text.WriteCollector(cmd.OutOrStdout(), status)
			}
			text, err := api.JSON(status)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s\n", text)
			return err
		},
	}
}
