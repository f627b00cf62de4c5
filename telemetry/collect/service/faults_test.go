package service_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/weirswitch/weir/pipeline/clock"
	"github.com/weirswitch/weir/telemetry/export"
	"github.com/weirswitch/weir/telemetry/jetstream"
	"github.com/weirswitch/weir/telemetry/record"
)

// TestFaultCollectorRestarts kills the collector while records come, again and again: in the
// end each record that was made is in the stream once, and in memory once.
func TestFaultCollectorRestarts(t *testing.T) {
	rounds := faultRounds(t)
	b := newCollectBed(t, "", "")
	b.start(t)
	spool, shipper := sender(t, jetstream.Options{Servers: []string{"nats://" + b.nats}, Inbox: jetstream.Acks(1)})
	d := &digests{sw: 1, base: clock.Kernel.TAI() - int64(time.Hour)}
	end := make(chan struct{})
	var making sync.WaitGroup
	making.Go(func() {
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-end:
				return
			case <-tick.C:
			}
			h, encoded := d.batch(t)
			if err := spool.Write(h, encoded); err != nil {
				t.Error(err)
				return
			}
		}
	})
	r := rand.New(rand.NewPCG(4, 2))
	for range rounds {
		before := collectedKind(b.status(t), record.PINT).Records
		awaitState(t, "records to be applied", func() (string, bool) {
			now := collectedKind(b.status(t), record.PINT).Records
			return fmt.Sprint(now), now > before+100
		})
		time.Sleep(time.Duration(r.Int64N(int64(300 * time.Millisecond))))
		b.kill()
		time.Sleep(time.Duration(r.Int64N(int64(500 * time.Millisecond))))
		b.start(t)
	}
	close(end)
	making.Wait()
	awaitState(t, "all to be sent", func() (string, bool) {
		c := pintCounts(spool)
		return fmt.Sprintf("%+v, %+v", c, shipper.Status()), c.Sent.Records == d.next
	})
	awaitState(t, "all to be applied", func() (string, bool) {
		s := b.status(t)
		return fmt.Sprint(s), s.Stream.Messages >= d.next && s.Stream.Pending == 0 && collectedKind(s, record.PINT).Held >= d.next
	})
	s := b.status(t)
	k := collectedKind(s, record.PINT)
	if s.Stream.Messages != d.next || k.Records != d.next || k.Held != d.next || k.Duplicates+k.Conflicts+k.Unreadable != 0 {
		t.Errorf("%d records were made; stream: %v; %v", d.next, s.Stream, k)
	}
	b.kill()
	b.start(t) // a last time, from the disk alone
	s = b.status(t)
	if k := collectedKind(s, record.PINT); s.Stream.Messages != d.next || k.Records != d.next || k.Held != d.next || k.Duplicates+k.Conflicts+k.Unreadable != 0 {
		t.Errorf("after a restart: %d records were made; stream: %v; %v", d.next, s.Stream, k)
	}
	t.Logf("%d kills: %d records, each once; %d published again, of which the stream had %d", rounds+1, d.next, shipper.Status().Retried, shipper.Status().Duplicates)
	b.stop(t)
}

// pintCounts is what a spool counts of digests.
func pintCounts(s *export.Spool) export.KindCounts {
	for _, c := range s.Counts() {
		if c.Kind == record.PINT {
			return c
		}
	}
	return export.KindCounts{}
}

// faultRounds is how often a test has its fault: make collect-faults has more.
func faultRounds(t *testing.T) int {
	t.Helper()
	text := os.Getenv("WEIR_COLLECT_FAULTS")
	if text == "" {
		return 1
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		t.Fatalf("WEIR_COLLECT_FAULTS=%s is no number of rounds", text)
	}
	return n
}
