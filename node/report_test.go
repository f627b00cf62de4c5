package node

import (
	"encoding/json"
	"fmt"
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weirswitch/weir/control"
	"github.com/weirswitch/weir/dataplane/worker"
)

// number gives every field that fill sets a value of its own.
type number struct{ n int }

// fill sets all fields, with two elements in each list and map.
func (x *number) fill(v reflect.Value) {
	x.n++
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			x.fill(v.Field(i))
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		for i := range 2 {
			x.fill(v.Index(i))
		}
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		for range 2 {
			key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
			x.fill(key)
			x.fill(value)
			v.SetMapIndex(key, value)
		}
	case reflect.String:
		v.SetString(fmt.Sprintf("text %d", x.n))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Float64:
		v.SetFloat(float64(x.n) + 0.5)
	case reflect.Int, reflect.Int64:
		v.SetInt(int64(x.n))
	case reflect.Uint32, reflect.Uint64:
		v.SetUint(uint64(x.n))
	default:
		panic(v.Type())
	}
}

// TestReportMessage: the message has every field of the report, under the same
// name and with the same value, and no other.
func TestReportMessage(t *testing.T) {
	var report worker.Report
	new(number).fill(reflect.ValueOf(&report).Elem())
	plain, err := json.Marshal(report)
	if err != nil {
		t.Fatal(err)
	}
	var want, got any
	if err := json.Unmarshal(plain, &want); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(control.JSON(reportMessage(&report)), &got); err != nil {
		t.Fatal(err)
	}
	// The stages' own metrics are added beside what workers count.
	delete(got.(map[string]any), "metrics")
	// So is what a sink has decoded.
	delete(got.(map[string]any), "pint")
	delete(got.(map[string]any), "records")
	// And what guards have blocked.
	for _, p := range got.(map[string]any)["ports"].([]any) {
		delete(p.(map[string]any), "blocked")
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-worker.Report +message:\n%s", diff)
	}
}

func TestJudge(t *testing.T) {
	good := worker.Report{Balanced: true}
	if err := judge(&good); err != nil {
		t.Error(err)
	}
	bad := worker.Report{Fate: worker.Fate{Received: 5, Forwarded: 3, Consumed: 1, Dropped: map[string]uint64{"no_port": 2}}}
	bad.Frames = worker.FrameReport{Total: 100, Lost: 7, Faults: 2}
	want := "the counters do not add up: received 5, forwarded 3, consumed 1, dropped 2; copied 0, forwarded 0, dropped 0\n" +
		"7 of 100 frames are lost\nthe audit refused 2 changes of a frame's owner"
	if err := judge(&bad); err == nil || err.Error() != want {
		t.Errorf("got %v", err)
	}
}
