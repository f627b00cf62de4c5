package plainjson_test

import (
	"math"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"

	control "github.com/weirswitch/weir/control/api"
	"github.com/weirswitch/weir/internal/plainjson"
	collector "github.com/weirswitch/weir/telemetry/view/api"
)

// TestWrite: names and their order are the schema's, numbers are numbers, keys are sorted.
// What has no value is written as empty by Every, and left out by Present.
func TestWrite(t *testing.T) {
	trust := 0.5
	for _, c := range []struct {
		message        proto.Message
		every, present string // present is empty: the same
	}{
		{&wrapperspb.UInt64Value{Value: math.MaxUint64}, `{"value":18446744073709551615}`, ""},
		{&wrapperspb.Int64Value{Value: math.MinInt64}, `{"value":-9223372036854775808}`, ""},
		{&wrapperspb.DoubleValue{Value: 1e-9}, `{"value":1e-9}`, ""},
		{&wrapperspb.StringValue{Value: "quo\"te\n"}, `{"value":"quo\"te\n"}`, ""},
		{&wrapperspb.BoolValue{}, `{"value":false}`, ""},
		{&control.FdbResponse{}, `{"entries":[]}`, ""},
		{
			&control.Fate{Forwarded: 1, Dropped: map[string]uint64{"b": 2, "a": 3}},
			`{"received":0,"forwarded":1,"consumed":0,"dropped":{"a":3,"b":2}}`, "",
		},
		{
			&collector.HeavyFlow{Flow: "a", Trust: &trust},
			`{"flow":"a","share":0,"trust":0.5,"value":0,"low":0,"high":0}`, "",
		},
		{
			&collector.Clocks{HasOffset: true},
			`{"has_offset":true,"offset_ns":{"value":0,"low":0,"high":0},"warning":""}`, `{"has_offset":true}`,
		},
		{
			&collector.Clocks{Warning: new(string), OffsetNs: &collector.Bounded{High: 2}},
			`{"has_offset":false,"offset_ns":{"value":0,"low":0,"high":2},"warning":""}`, "",
		},
	} {
		every, err := plainjson.Every(c.message)
		if err != nil || string(every) != c.every {
			t.Errorf("every field: %s, %v, want %s", every, err, c.every)
		}
		want := c.present
		if want == "" {
			want = c.every
		}
		if present, err := plainjson.Present(c.message); err != nil || string(present) != want {
			t.Errorf("what is present: %s, %v, want %s", present, err, want)
		}
	}
}

// TestNoForm: what JSON has no form for is an error, and a kind that no report has a panic.
func TestNoForm(t *testing.T) {
	for _, x := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		for _, m := range []proto.Message{
			&wrapperspb.DoubleValue{Value: x},
			&collector.Share{Packets: &collector.Bounded{Low: x}},
			&control.MetricsResponse{Metrics: []*control.Metric{{}, {Value: x}}},
		} {
			if text, err := plainjson.Every(m); err == nil {
				t.Errorf("%v: %s", x, text)
			}
			if text, err := plainjson.Present(m); err == nil {
				t.Errorf("%v: %s", x, text)
			}
		}
	}
	defer func() {
		if recover() == nil {
			t.Error("bytes are written")
		}
	}()
	_, _ = plainjson.Every(&control.CapturedPacket{})
}
