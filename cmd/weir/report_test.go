package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weirswitch/weir/control/api"
)

func TestPrintReport(t *testing.T) {
	r := &api.ReportResponse{
		Name: "s1", Id: 7, Received: 10, Forwarded: 7, Dropped: map[string]uint64{"tx_full": 2, "no_port": 1}, Balanced: true,
		Ports: []*api.Port{
			{
				Name: "p0", Interface: "eth0", Driver: "xsk", Mode: "native, copy", Queues: 1, Mtu: 1500, Up: true, State: "up",
				Received: 10, Forwarded: 7, Dropped: map[string]uint64{"tx_full": 2, "no_port": 1}, RxRingFull: 4, Kept: 3,
			},
			{Name: "p1", Interface: "eth1", Driver: "xsk", Mode: "native, copy", Queues: 1, Mtu: 1500, Transmitted: 7,
				State: "gone", Error: "no interface eth1",
				Settings: []*api.Setting{{Name: "rx-lro", Was: "on", Is: "off"}},
				Refused:  []*api.RefusedSetting{{Name: "rx-vlan-filter", Why: "the driver keeps it as it is: packets may not arrive"}}},
		},
		Stages:  []*api.Stage{{Name: "parse", Packets: 10, Batches: 4}, {Name: "patch", Packets: 10, Batches: 4, SampledPackets: 1, NsPerPacket: 12.34}},
		Workers: []*api.Worker{{Id: 0, Core: -1, Thread: 99, Queues: []string{"p0/0", "p1/0"}, Packets: 10, Batches: 4, Sleeps: 3, FreeFrames: 100}},
		Frames:  &api.Frames{Total: 4096, Size: 2048},
	}
	want := `
switch s1, id 7

PORT  INTERFACE  LINK  DRIVER  MODE          QUEUES   MTU  RECEIVED  FORWARDED  CONSUMED  DROPPED  TRANSMITTED  LOST
p0    eth0       up    xsk     native, copy       1  1500        10          7         0        3            0     4
p1    eth1       gone  xsk     native, copy       1     -         0          0         0        0            7     0

p1 is gone: no interface eth1

PORT  SETTING         WAS  IS   NOT CHANGED BECAUSE
p1    rx-lro          on   off
p1    rx-vlan-filter            the driver keeps it as it is: packets may not arrive

PORT  WHAT                REASON        PACKETS
p0    dropped             no_port             1
p0    dropped             tx_full             2
p0    lost                rx_ring_full        4
p0    left to the kernel  kept                3

STAGE  PACKETS  BATCHES  PACKETS/BATCH  DROPPED  COPIED  NS/PACKET
parse       10        4            2.5        0       0          -
patch       10        4            2.5        0       0       12.3
NS/PACKET "-": no batch was timed yet, as only one in 64 is

WORKER  CORE  THREAD  QUEUES     PACKETS  BATCHES  PACKETS/BATCH  HANDED OVER  STEERED  TAKEN OVER  SLEEPS  FREE FRAMES
     0   any      99  p0/0 p1/0       10        4            2.5            0        0           0       3          100

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
