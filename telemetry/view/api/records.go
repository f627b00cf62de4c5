package api

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/weirswitch/weir/telemetry/query"
)

// RecordsPath, with a kind behind it, is where a collector serves the records that it has in memory, as
// Parquet files.
const RecordsPath = "/records/"

// RecordTimes are the parameters of a window of records, in ns: from and to which time of the switches' clock, or how
// long before the newest record.
var RecordTimes = []string{"from_ns", "to_ns", "last_ns"}

// RecordsTimeout is how long a table of records may take on its way: it may be as large as a collector's memory.
const RecordsTimeout = 5 * time.Minute

// maxReason bounds what is read of why a collector refuses.
const maxReason = 4 << 10

// Records writes a collector's records of a kind, as Parquet has them (package parquet). A time of 0 bounds nothing. On error,
// w may have been given a part; query.ErrNoRecords: the collector has none of these.
func (c *Client) Records(ctx context.Context, w io.Writer, kind string, from, to, last int64) error {
	times := url.Values{}
	for i, n := range []int64{from, to, last} {
		if n != 0 {
			times.Set(RecordTimes[i], strconv.FormatInt(n, 10))
		}
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, c.base+RecordsPath+url.PathEscape(kind)+"?"+times.Encode(), nil)
	if err != nil {
		return err
	}
	got, err := c.http.Do(r)
	if err != nil {
		if dial := (*DialError)(nil); errors.As(err, &dial) {
			return dial
		}
		return fmt.Errorf("ask the collector at %s for records: %w", c.url, err)
	}
	defer got.Body.Close()
	if got.StatusCode != http.StatusOK {
		why, _ := io.ReadAll(io.LimitReader(got.Body, maxReason))
		if of, ok := strings.CutPrefix(strings.TrimSpace(string(why)), query.ErrNoRecords.Error()); ok && got.StatusCode == http.StatusNotFound {
			return fmt.Errorf("%w%s", query.ErrNoRecords, of)
		}
		return fmt.Errorf("the collector at %s gives no records: %s: %s", c.url, got.Status, strings.TrimSpace(string(why)))
	}
	if _, err := io.Copy(w, got.Body); err != nil {
		return fmt.Errorf("the collector at %s ended before all records had come: %w", c.url, err)
	}
	return nil
}
