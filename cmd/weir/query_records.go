package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"github.com/weirswitch/weir/telemetry/collect/service"
	"github.com/weirswitch/weir/telemetry/query"
	"github.com/weirswitch/weir/telemetry/view/api"
	"github.com/weirswitch/weir/telemetry/view/parquet"
)

// newQueryRecordsCommand is no question either: it writes the records themselves.
func newQueryRecordsCommand(o *queryOptions) *cobra.Command {
	var kind string
	q := &queryFlags{} // of which this has the window alone
	cmd := &cobra.Command{
		Use: "records", Short: "The records themselves, as a table in a Parquet file", Args: cobra.NoArgs,
		Long: `Records writes the records of a kind to the Parquet file that --parquet names: a row for each entry of a
sample, each interval of a measurement point, each subepoch of a sketch's fragment (without its cells), each
digest. Of a collector, those that it has in memory. Without such records no file is written, and the status is 1.`,
		Example: `  weir query records --kind samples --last 1m --parquet samples.parquet
  weir query records --kind digests --records DIR --parquet digests.parquet`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var errs []error
			if o.parquet == "" {
				errs = append(errs, errors.New("--parquet: records needs it: name the file to be written"))
			}
			if !slices.Contains(parquet.RecordKinds(), kind) {
				errs = append(errs, fmt.Errorf("--kind %q: choose one of %q", kind, parquet.RecordKinds()))
			}
			if q.Last > 0 && (q.start != "" || q.end != "") {
				errs = append(errs, fmt.Errorf("--last %v: give neither --start nor --end with it", q.Last))
			}
			var err error
			q.Start, err = query.ParseTime("--start", q.start)
			errs = append(errs, err)
			q.End, err = query.ParseTime("--end", q.end)
			errs = append(errs, err)
			if err := errors.Join(errs...); err != nil {
				return usageError(err)
			}
			return o.writeRecords(cmd, kind, &q.Question)
		},
	}
	f := cmd.Flags()
	f.StringVar(&kind, "kind", "", fmt.Sprintf("`KIND` of records: one of %q", parquet.RecordKinds()))
	f.DurationVar(&q.Last, "last", 0, "only so long before the newest record, or before the collector's clock where that record is late; 0: all")
	f.StringVar(&q.start, "start", "", "only from this `TIME` on: RFC 3339, or ns of the switches' clock as answers have it")
	f.StringVar(&q.end, "end", "", "only before this `TIME`")
	return cmd
}

// writeRecords takes them from the folder if there is one, else from the collector.
func (o *queryOptions) writeRecords(cmd *cobra.Command, kind string, q *query.Question) error {
	if o.records.Records != "" {
		if err := o.collector.unused(cmd); err != nil {
			return usageError(err)
		}
		folder := &querySpool{Folder: service.Folder{Records: o.records.Records}, keys: o.records.keys}
		e, err := folder.engine()
		if err != nil {
			return usageError(err)
		}
		s := e.Store
		window := s.Range(q.Start, q.End)
		if q.Last > 0 {
			window = s.Last(q.Last)
		}
		err = parquet.WriteRecordsFile(o.parquet, s, kind, window, 0)
		if errors.Is(err, query.ErrNoRecords) {
			return folder.elsewhere(s, err)
		}
		return parquetFault(err)
	}
	client, err := o.collector.client()
	if err := errors.Join(err, o.records.unused(cmd)); err != nil {
		return usageError(err)
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), max(o.collector.timeout, api.RecordsTimeout))
	defer cancel()
	return parquet.Atomically(o.parquet, func(w io.Writer) error {
		return client.Records(ctx, w, kind, q.Start, q.End, int64(q.Last))
	})
}
