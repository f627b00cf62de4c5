package main

import (
	"strings"
	"testing"
	"time"

	"github.com/weirswitch/weir/control/api"
	"github.com/weirswitch/weir/telemetry/export"
)

// TestPrintRecords: what people are shown of the record path.
func TestPrintRecords(t *testing.T) {
	at := time.Date(2026, 5, 4, 3, 2, 1, 0, time.Local).UnixNano()
	for _, c := range []struct {
		name string
		r    *api.Records
		want string
	}{
		{"nothing", nil, ""},
		{"no collector", &api.Records{Spool: "/spool", State: string(export.Off), Kinds: []*api.RecordKind{{Kind: "lds", Made: 5, Waiting: 5, WaitingBytes: 500}}}, `
records: spooled in /spool, they stay there, since no collector is configured

RECORDS  MADE  FOUND  SENT  WAITING  DROPPED  LOST  WAITING BYTES
lds         5      0     0        5        0     0            500
`},
		{"connected", &api.Records{
			Spool: "/spool", State: "connected", Server: "nats://127.0.0.1:4222", SinceNs: at, Connects: 2,
			Published: 12, Acknowledged: 10, Retried: 2, Duplicates: 1, LastError: "it broke", LastErrorNs: at,
			Kinds: []*api.RecordKind{{Kind: "pint", Made: 14, Found: 1, Sent: 10, Dropped: 3, Lost: 2, Drops: []*api.RecordDrop{
				{Kind: "pint", Reason: "spool_full", Records: 3, Bytes: 300, FirstEpoch: 7, LastEpoch: 9},
				{Kind: "pint", Reason: "lost", Records: 2, Bytes: 200, FirstEpoch: 11, LastEpoch: 12},
			}}},
			DroppedBefore: []*api.RecordDrop{{Kind: "lds", Reason: "cut_off", Records: 1, Bytes: 50, FirstEpoch: 1, LastEpoch: 1}},
		}, `
records: spooled in /spool, sent to nats://127.0.0.1:4222 since 2026-05-04 03:02:01 (connection 2)
published 12, 2 of them again; acknowledged 10, of which JetStream had 1 already
last error, 2026-05-04 03:02:01: it broke

RECORDS  MADE  FOUND  SENT  WAITING  DROPPED  LOST  WAITING BYTES
pint       14      1    10        0        3     2              0

RECORDS  DROPPED BECAUSE  RECORDS  BYTES  FIRST EPOCH  LAST EPOCH  WHEN
pint     spool_full             3    300            7           9  in this run
pint     lost                   2    200           11          12  in this run
lds      cut_off                1     50            1           1  before
`},
	} {
		var text strings.Builder
		if err := printRecords(&text, c.r); err != nil || text.String() != c.want {
			t.Errorf("%s: %v, got\n%s", c.name, err, &text)
		}
	}
}
