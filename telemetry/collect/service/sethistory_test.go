package service_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weirswitch/weir/pipeline/clock"
	"github.com/weirswitch/weir/telemetry/query"
	"github.com/weirswitch/weir/telemetry/record"
	"github.com/weirswitch/weir/telemetry/status"
	"github.com/weirswitch/weir/telemetry/store"
)

// pastQuestions are about a window, of all kinds that the archive answers but network, whose ages are of the moment.
func pastQuestions(from, to int64) (list []query.Question) {
	flow, _ := setFlow(3)
	for _, k := range query.Kinds() {
		q := query.Question{Kind: k, Start: from, End: to}
		switch k {
		case query.KindFrequency:
			q.Flow = query.FormatKey(query.Key(flow))
		case query.KindDelay, query.KindLoss:
			q.From, q.To = "s1", "s2"
		case query.KindPath, query.KindLatency, query.KindCongestion, query.KindLoops:
			list = append(list, q)
			q.Flow = query.FormatKey(query.Key(flow))
		case query.KindHeavyHitters:
			list = append(list, q)
			q.By, q.Theta = query.BySketch, 0.01
		case query.KindNetwork:
			continue
		}
		list = append(list, q)
	}
	return list
}

// answerOf is an answer without what is missing, and the partitions that it names as missing. Of one flow an archive is read for its partition alone, so
// how many records there are is left out, too.
func (b *collectBed) answerOf(t *testing.T, q *query.Question) (answer map[string]any, unreached []int) {
	t.Helper()
	text := b.text(t, q)
	if err := json.Unmarshal([]byte(text), &answer); err != nil {
		return map[string]any{"error": text}, nil
	}
	missing, _ := answer["missing"].([]any)
	for _, m := range missing {
		if m := m.(map[string]any); m["unreached"] != nil {
			unreached = append(unreached, int(m["instance"].(float64)))
		}
	}
	delete(answer, "missing")
	if q.Flow != "" {
		delete(answer, "records")
	}
	return answer, unreached
}

// withStatus are the records of setRecords, and a status of each switch in each epoch: the archive knows by it which switches there are.
func withStatus(t *testing.T, base int64) []encodedRecord {
	t.Helper()
	list := setRecords(t, base)
	for at := base; at < base+setEpochs*setEpoch; at += setEpoch {
		for sw := uint32(1); sw <= 3; sw++ {
			h := record.Header{Kind: record.Status, Switch: sw, Name: fmt.Sprint("s", sw), Start: at, Span: setEpoch, Partial: true}
			n := uint64(at-base)/uint64(setEpoch)*1000 + uint64(sw)
			encoded, err := record.Append(nil, &h, (&status.Status{Time: at + setEpoch, Ports: []status.Port{{Name: "p0", Up: true, Received: n, ReceivedBytes: 100 * n, Transmitted: 2 * n}}}).AppendBinary)
			if err != nil {
				t.Fatal(err)
			}
			list = append(list, encodedRecord{&h, encoded})
		}
	}
	return list
}

// TestSetHistory: four collectors of a set write one archive, each the digests of its partitions, and each of them answers about it as one
// collector does that has all in memory: after restarts that read nothing of the stream, over archive and memory together, and with one of them away, whose partitions
// are named.
func TestSetHistory(t *testing.T) {
	const of = 4
	folder := filepath.Join(t.TempDir(), "archive")
	b := newSetBed(t, of)
	for i := range of {
		b.join(t, fmt.Sprintf("index = %d\nof = %d\n[archive]\nurl = %q\nflush = \"1s\"\nrecent = \"1s\"\n", i, of, "file://"+folder))
	}
	base := (clock.Kernel.TAI() - int64(5*time.Minute)) / setEpoch * setEpoch
	counts := map[record.Kind]uint64{}
	send := func(base int64) {
		for _, r := range withStatus(t, base) {
			b.send(t, r)
			counts[r.h.Kind]++
		}
	}
	archived := func() {
		t.Helper()
		awaitState(t, "all to be archived", func() (string, bool) {
			text, done := "", true
			for k, n := range counts {
				have := len(archivedRows(t, folder, k.String()))
				text += fmt.Sprintln(k, have, "of", n)
				done = done && uint64(have) >= n
			}
			return text, done
		})
	}
	compare := func(what string, from, to int64, members ...*collectBed) {
		t.Helper()
		for i, q := range pastQuestions(from, to) {
			var got, want map[string]any
			var unreached []int
			awaitState(t, fmt.Sprintf("%s: one collector's answer to %+v", what, q), func() (string, bool) {
				want, _ = b.one.answerOf(t, &q)
				got, unreached = members[i%len(members)].answerOf(t, &q)
				return fmt.Sprintf("%.1500v\none: %.1500v\nunreached: %v", got, want, unreached), want["error"] == nil && reflect.DeepEqual(got, want) && unreached == nil
			})
		}
	}
	send(base)
	archived()
	for k, n := range counts {
		eachOnce(t, folder, k.String(), n)
	}
	for _, m := range b.members {
		m.kill()
		m.start(t)
	}
	for i, m := range b.members {
		if n := collectedKind(m.status(t), record.PINT).Records; n != 0 {
			t.Errorf("member %d has read %d records of the stream again", i, n)
		}
	}
	compare("from the archive", base, base+setEpochs*setEpoch, b.members...)

	later := base + 60*setEpoch
	send(later)
	compare("from archive and memory", base, later+setEpochs*setEpoch, b.members...)
	archived()

	b.members[2].kill()
	q := query.Question{Kind: query.KindLatency, Start: base, End: base + setEpochs*setEpoch}
	var want map[string]any
	awaitState(t, "an answer from the archive that names the partitions of the collector that was killed", func() (string, bool) {
		var got map[string]any
		var unreached []int
		want, _ = b.one.answerOf(t, &q)
		got, unreached = b.members[1].answerOf(t, &q)
		return fmt.Sprintf("%.1500v\none: %.1500v\n%v", got, want, unreached), reflect.DeepEqual(got, want) && slices.Equal(unreached, []int{2, 6, 10, 14})
	})
	q.End = 0 // until now: the archive cannot have all of it
	awaitState(t, "an answer of the other partitions", func() (string, bool) {
		got, unreached := b.members[1].answerOf(t, &q)
		text := b.members[1].text(t, &q)
		return fmt.Sprintf("%.1500v\n%v", got, unreached), strings.Contains(text, "but those of partitions 2, 6, 10, 14") && slices.Equal(unreached, []int{2, 6, 10, 14})
	})
	b.members[2].start(t)
	compare("all again", base, later+setEpochs*setEpoch, b.members...)
	for _, m := range append(b.members, b.one) {
		m.stop(t)
	}
}

// TestFaultSetArchive kills collectors that share partitions and an archive while records come and questions are asked: no answer has a digest
// twice, and one that lacks some names what it lacks; in the end each record is in the archive once, and in answers through each member.
func TestFaultSetArchive(t *testing.T) {
	rounds := faultRounds(t)
	folder := filepath.Join(t.TempDir(), "archive")
	b := newSetBed(t, 3)
	for range 3 {
		b.join(t, fmt.Sprintf("share = true\n[archive]\nurl = %q\nflush = \"1s\"\nrecent = \"1s\"\n", "file://"+folder))
	}
	base := (clock.Kernel.TAI() - int64(5*time.Minute)) / setEpoch * setEpoch
	for _, r := range setRecords(t, base) {
		b.send(t, r)
	}
	const all = setEpochs * 6000
	q := &query.Question{Kind: query.KindLatency, Start: base, End: base + setEpochs*setEpoch}
	awaitState(t, "all records", func() (string, bool) {
		a, err := b.one.client.Ask(t.Context(), q)
		l, ok := a.(*query.LatencyAnswer)
		return fmt.Sprint(a, err), ok && l.Digests == all
	})
	whole := func(m *collectBed) {
		t.Helper()
		awaitState(t, "a whole answer", func() (string, bool) {
			a, err := m.client.Ask(t.Context(), q)
			l, ok := a.(*query.LatencyAnswer)
			return fmt.Sprint(a, err), ok && l.Digests == all
		})
	}
	for _, m := range b.members {
		whole(m)
	}
	end := make(chan struct{})
	var load sync.WaitGroup
	d := &digests{sw: 1, base: base + 60*setEpoch}
	load.Go(func() {
		tick := time.NewTicker(2 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-end:
				return
			case <-tick.C:
			}
			h, encoded := d.batch(t)
			b.send(t, encodedRecord{h, encoded})
		}
	})
	asked, lacking := 0, 0
	load.Go(func() { // through one that is not killed
		for {
			select {
			case <-end:
				return
			default:
			}
			a, err := b.members[0].client.Ask(t.Context(), q)
			l, ok := a.(*query.LatencyAnswer)
			if err != nil || !ok {
				continue
			}
			asked++
			named := slices.ContainsFunc(l.Missing, func(m store.Missing) bool { return m.Unreached != "" })
			if l.Digests > all || l.Digests < all && !named {
				t.Errorf("an answer of %d digests, of %d; missing: %+v", l.Digests, all, l.Missing)
				return
			}
			if l.Digests < all {
				lacking++
			}
		}
	})
	r := rand.New(rand.NewPCG(8, 5))
	for i := range rounds {
		m := b.members[1+i%2]
		before := len(archivedRows(t, folder, "pint"))
		awaitState(t, "records to be archived", func() (string, bool) {
			now := len(archivedRows(t, folder, "pint"))
			return fmt.Sprint(now), now > before
		})
		time.Sleep(time.Duration(r.Int64N(int64(1500 * time.Millisecond))))
		m.kill()
		time.Sleep(time.Duration(r.Int64N(int64(7 * time.Second)))) // others take its partitions behind five seconds
		m.start(t)
	}
	close(end)
	load.Wait()
	digestRecords := d.next
	for _, r := range setRecords(t, base) {
		if r.h.Kind == record.PINT {
			digestRecords++
		}
	}
	awaitState(t, "all to be archived", func() (string, bool) {
		n := len(archivedRows(t, folder, "pint"))
		return fmt.Sprint(n, " of ", digestRecords), uint64(n) >= digestRecords
	})
	later := &query.Question{Kind: query.KindPath, Start: d.base, End: d.base + int64(d.next)<<16}
	for i, m := range b.members {
		whole(m)
		awaitState(t, "all of the load in an answer", func() (string, bool) {
			a, err := m.client.Ask(t.Context(), later)
			p, ok := a.(*query.PathAnswer)
			return fmt.Sprintf("member %d: %.600v, %v, of %d records", i, a, err, d.next), ok && p.Digests == d.next*digestsEach
		})
	}
	for _, m := range append(b.members, b.one) {
		m.stop(t)
	}
	eachOnce(t, folder, "pint", digestRecords)
	if left, err := filepath.Glob(filepath.Join(folder, ".staging", "*", "*")); err != nil || len(left) != 0 {
		t.Errorf("staged files are left: %v, %v", left, err)
	}
	if _, err := os.Stat(folder); errors.Is(err, fs.ErrNotExist) {
		t.Error("there is no archive")
	}
	t.Logf("%d kills: %d records, each once; %d answers, of which %d named what they lacked", rounds, digestRecords, asked, lacking)
}
