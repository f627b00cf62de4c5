package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/weirswitch/weir/telemetry/query"
)

// GatherPath is where a collector serves the records that answer a question, to a collector that asks several regions.
const GatherPath = "/gather"

// GatherRequest asks for the records that answer a question. It travels as JSON.
type GatherRequest struct {
	// Version of request and answer, GatherVersion.
	Version  int             `json:"v"`
	Question *query.Question `json:"question"`
	// AllFlows: digests of all flows are needed although the question is about some.
	AllFlows bool `json:"all_flows,omitempty"`
	// Time is how long the answer may take to begin.
	Time time.Duration `json:"time_ns"`
}

// GatherVersion is that of requests and answers.
const GatherVersion = 1

// Gather asks for records, and returns what the collector sends. query.ErrTooCostly: it is too much.
func (c *Client) Gather(ctx context.Context, of *GatherRequest) (io.ReadCloser, error) {
	body, err := json.Marshal(of)
	if err != nil {
		return nil, err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, c.base+GatherPath, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", "application/json")
	got, err := c.http.Do(r)
	if err != nil {
		if dial := (*DialError)(nil); errors.As(err, &dial) {
			return nil, fmt.Errorf("no collector listens on %s: %w", c.url, dial.Err)
		}
		return nil, fmt.Errorf("ask the collector at %s: %w", c.url, err)
	}
	if got.StatusCode == http.StatusOK {
		return got.Body, nil
	}
	defer got.Body.Close()
	if got.StatusCode == http.StatusRequestEntityTooLarge {
		return nil, fmt.Errorf("%w for the collector at %s (its limits.bytes): ask about fewer flows (prefix, src, dst, port) or a shorter window", query.ErrTooCostly, c.url)
	}
	why, _ := io.ReadAll(io.LimitReader(got.Body, maxReason))
	return nil, fmt.Errorf("the collector at %s gives no records: %s: %s", c.url, got.Status, strings.TrimSpace(string(why)))
}
