package controller

import (
	"context"
	"testing"
	"time"

	"github.com/weirswitch/weir/dataplane/lab/netnstest"
	"github.com/weirswitch/weir/p4/bmv2"
	"github.com/weirswitch/weir/p4/bmv2/bmv2test"
)

func TestMain(m *testing.M) {
	netnstest.Isolate()
	m.Run()
}

// TestBridge: on BMv2, too, stations are learned, limited, and forgotten when they fall silent.
func TestBridge(t *testing.T) {
	tools := bmv2test.Find(t)
	sw := bmv2test.Start(t, tools, bmv2test.Compile(t, tools, "../v1model/weir.p4"), "wctl")
	c, err := New(sw, bridgeOf(2), options)
	if err != nil {
		t.Fatal(err)
	}
	c.bridge.learning.Ageing = 100 * time.Millisecond // below what a configuration may say
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	// until serves the switch until the stations are as they should be.
	until := func(what string, ok func(Stations) bool) {
		t.Helper()
		for !ok(c.Stations()) {
			if ctx.Err() != nil {
				t.Fatalf("%s: after a minute there is %+v", what, c.Stations())
			}
			if err := c.step(sw, func() int64 { return int64(options.Now) }); err != nil {
				t.Fatal(err)
			}
		}
	}
	for mac := byte(1); mac <= 3; mac++ {
		frame := make([]byte, 64)
		copy(frame, []byte{2, 0, 0, 0, 1, 0, 2, 0, 0, 0, 0, mac, 0x88, 0xb5})
		if err := sw.Send(bmv2.Packet{Port: uint16(mac % 2), Data: frame}); err != nil {
			t.Fatal(err)
		}
	}
	until("learn two of three", func(s Stations) bool { return s.Learned >= 2 && s.Learned+s.Full >= 3 })
	until("forget them", func(s Stations) bool { return s.Known == 0 && s.Aged == s.Learned })
}
