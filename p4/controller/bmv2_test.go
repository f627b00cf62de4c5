package controller

import (
	"context"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/weirswitch/weir/dataplane/lab/netnstest"
	"github.com/weirswitch/weir/p4/bmv2"
)

// TestBridge: on BMv2, too, stations are learned, limited, and forgotten when they fall silent.
func TestBridge(t *testing.T) {
	programs, err := bmv2.Find()
	if errors.Is(err, bmv2.ErrMissing) {
		t.Skip(err)
	} else if err != nil {
		t.Fatal(err)
	}
	netnstest.Require(t)
	ctx, compiled := context.Background(), filepath.Join(t.TempDir(), "weir.json")
	if err := programs.Compile(ctx, "../v1model/weir.p4", compiled); err != nil {
		t.Fatal(err)
	}
	sw, err := bmv2.Start(ctx, bmv2.Config{Binary: programs.Switch, Program: compiled, Namespace: netnstest.New(t, "wctl")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := sw.Stop(); err != nil {
			t.Error(err)
		}
	})
	c, err := New(sw, bridgeOf(2), options)
	if err != nil {
		t.Fatal(err)
	}
	c.bridge.learning.Ageing = 100 * time.Millisecond // below what a configuration may say
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
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
