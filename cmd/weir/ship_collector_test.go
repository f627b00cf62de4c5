package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protojson"

	switchapi "github.com/weirswitch/weir/control/api"
	"github.com/weirswitch/weir/telemetry/record"
	"github.com/weirswitch/weir/telemetry/view/api"
)

// collecting is a collector as users run it, which can be killed.
type collecting struct {
	b      *shipBed
	config string
	p      *process
	client *http.Client
}

const collectorPage = "127.0.0.1:9470"

// newCollecting starts a collector, with keys of [nats].
func newCollecting(t *testing.T, b *shipBed, nats string) *collecting {
	t.Helper()
	c := &collecting{b: b, config: b.dir2("collect.toml")}
	text := fmt.Sprintf("[collect]\nlisten = %q\ndata = %q\n[nats]\n%s\n", collectorPage, b.dir2("collect"), nats)
	if err := os.WriteFile(c.config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c.client = &http.Client{Timeout: time.Minute, Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			return b.ns.Dial(ctx, network, address)
		},
	}}
	c.start(t)
	return c
}

// start waits until the collector has read what is on its disk.
func (c *collecting) start(t *testing.T) {
	t.Helper()
	c.p = &process{cmd: weirCommand("collect", "-c", c.config)}
	c.b.startCommand(t, c.p)
}

// kind asks the collector what it has of a kind of records.
func (c *collecting) kind(t *testing.T, k record.Kind) *api.KindStatus {
	t.Helper()
	r, err := c.client.Post("http://"+collectorPage+"/weir.query.v1.QueryService/Collector", "application/json", bytes.NewBufferString("{}"))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	var status api.CollectorStatus
	if err == nil && r.StatusCode == http.StatusOK {
		err = protojson.Unmarshal(text, &status)
	}
	if err != nil || r.StatusCode != http.StatusOK {
		t.Fatalf("%s, %v: %s", r.Status, err, text)
	}
	for _, s := range status.Kinds {
		if s.Kind == k.String() {
			return s
		}
	}
	return &api.KindStatus{}
}

// hasAll holds the collector to having taken each of some sketches, and none twice.
func (c *collecting) hasAll(t *testing.T, sent uint64) {
	t.Helper()
	var k *api.KindStatus
	awaitThat(t, "the collector to have all", func() (string, bool) {
		k = c.kind(t, record.DiSketch)
		return fmt.Sprint(k), k.Records >= sent
	})
	if k.Records != sent || k.Held != sent || k.Duplicates+k.Conflicts+k.Unreadable+k.Forgotten != 0 {
		t.Errorf("%d were sent: %v", sent, k)
	}
}

// sketchConfig has the stage make some 500 records each second.
const sketchConfig = `[stages.disketch]
epoch_bits = 22
[[stages.disketch.fragment]]
kind = "countmin"
memory = 4096
[[stages.disketch.fragment]]
kind = "countsketch"
memory = 4096
`

// kindOf finds the counters of a kind.
func kindOf(r *switchapi.Records, k record.Kind) *switchapi.RecordKind {
	for _, x := range r.Kinds {
		if x.Kind == k.String() {
			return x
		}
	}
	return &switchapi.RecordKind{}
}

// TestFaultCollectorKilled kills the collector while a switch sends it what a
// sketch counts. What the switch counts as sent is in the store once, at the end and
// after one more kill, behind which all of it is read from the disk.
func TestFaultCollectorKilled(t *testing.T) {
	b := newShipBed(t)
	c := newCollecting(t, b, `listen = "127.0.0.1:4222"`)
	p := b.start(t, b.config(t, "s1", `"parse", "patch"`, `"parse", "patch", "disketch"`, "[control]",
		fmt.Sprintf("[telemetry]\nbudget = \"none\"\ncollector = [\"nats://127.0.0.1:4222\"]\nspool = %q\n", b.dir2("spool"))+sketchConfig+"[control]"))
	stop := b.flood(t)
	sketches := func() *switchapi.RecordKind { return kindOf(b.records(t), record.DiSketch) }
	for range faultRounds(t) {
		before := sketches().Sent
		awaitThat(t, "records to be sent", func() (string, bool) {
			k := sketches()
			return fmt.Sprint(k), k.Sent > before+100
		})
		b.moment(200 * time.Millisecond)
		c.p.kill()
		b.moment(500 * time.Millisecond)
		c.start(t)
	}
	caughtUp := b.caughtUp()
	awaitThat(t, "all to be sent", func() (string, bool) {
		k := sketches()
		return fmt.Sprint(b.last), caughtUp(k)
	})
	retried, known := b.last.Retried, b.last.Duplicates
	stop()
	if status := p.stop(t); status != 0 {
		t.Errorf("status %d: %s", status, &p.stderr)
	}
	end := kindOf(lastRecords(t, p), record.DiSketch)
	if end.Made == 0 || end.Sent != end.Made || end.Waiting+end.Dropped+end.Lost != 0 {
		t.Errorf("not all was sent: %v", end)
	}
	for range 2 {
		c.hasAll(t, end.Sent)
		c.p.kill()
		c.start(t)
	}
	t.Logf("%d kills: %d records, %d published again, %d of them known", faultRounds(t), end.Sent, retried, known)
}
