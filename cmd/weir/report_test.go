package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weirswitch/weir/control"
	"github.com/weirswitch/weir/control/api"
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

func TestPrintReport(t *testing.T) {
	r := &api.ReportResponse{
		Name: "s1", Id: 7, Received: 10, Forwarded: 7, Dropped: map[string]uint64{"tx_full": 2, "no_port": 1}, Balanced: true,
		Ports: []*api.Port{
			{
				Name: "p0", Interface: "eth0", Driver: "xsk", Mode: "native, copy", Queues: 1, Mtu: 1500, Up: true, State: "up",
				Received: 10, Forwarded: 7, Dropped: map[string]uint64{"tx_full": 2, "no_port": 1}, RxRingFull: 4, Kept: 3,
			},
			{Name: "p1", Interface: "eth1", Driver: "xsk", Mode: "native, copy", Queues: 1, Mtu: 1500, Transmitted: 7,
				State: "gone", Error: "no interface eth1"},
		},
		Stages:  []*api.Stage{{Name: "parse", Packets: 10, Batches: 4}, {Name: "patch", Packets: 10, Batches: 4, SampledPackets: 1, NsPerPacket: 12.34}},
		Workers: []*api.Worker{{Id: 0, Core: -1, Thread: 99, Queues: []string{"p0/0", "p1/0"}, Packets: 10, Batches: 4, Sleeps: 3, FreeFrames: 100}},
		Frames:  &api.Frames{Total: 4096, Size: 2048},
	}
	want := `
switch s1, id 7

PORT  INTERFACE  LINK  DRIVER  MODE          QUEUES   MTU  RECEIVED  FORWARDED  CONSUMED  DROPPED  TRANSMITTED  LOST
p0    eth0       up    xsk     native, copy       1  1500        10          7         0        3            0     4
p1    eth1       gone  xsk     native, copy       1  1500         0          0         0        0            7     0

p1 is gone: no interface eth1

PORT  WHAT                REASON        PACKETS
p0    dropped             no_port             1
p0    dropped             tx_full             2
p0    lost                rx_ring_full        4
p0    left to the kernel  kept                3

STAGE  PACKETS  BATCHES  PACKETS/BATCH  DROPPED  COPIED  NS/PACKET
parse       10        4            2.5        0       0          -
patch       10        4            2.5        0       0       12.3

WORKER  CORE  THREAD  QUEUES     PACKETS  BATCHES  PACKETS/BATCH  HANDED OVER  TAKEN OVER  SLEEPS  FREE FRAMES
     0   any      99  p0/0 p1/0       10        4            2.5            0           0       3          100

received 10 = forwarded 7 + consumed 0 + dropped 3
copied 0 = forwarded 0 + consumed 0 + dropped 0
the counters add up; frames: 4096 of 2048 bytes, 0 lost
`
	var b bytes.Buffer
	if err := printReport(&b, r); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want[1:], b.String()); diff != "" {
		t.Error(diff)
	}
	r.Balanced = false
	b.Reset()
	if err := printReport(&b, r); err != nil || !strings.Contains(b.String(), "do NOT add up") {
		t.Errorf("an unbalanced report reads %q, %v", &b, err)
	}
}

func TestPrintFdb(t *testing.T) {
	var b bytes.Buffer
	err := printFdb(&b, []*api.FdbEntry{
		{Mac: "02:00:00:00:00:01", Port: "p0", AgeNs: 12_345_678_900},
		{Mac: "02:00:00:00:00:02", Vlan: 10, Port: "port-1", Static: true},
	})
	if err != nil {
		t.Fatal(err)
	}
	want := `
VLAN  MAC                PORT    KIND     AGE
   -  02:00:00:00:00:01  p0      learned  12s
  10  02:00:00:00:00:02  port-1  static     -
`
	if diff := cmp.Diff(want[1:], b.String()); diff != "" {
		t.Error(diff)
	}
}
