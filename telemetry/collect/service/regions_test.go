package service_test

import (
	"context"
	"crypto/x509"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirswitch/weir/internal/certtest"
	"github.com/weirswitch/weir/pipeline/clock"
	"github.com/weirswitch/weir/telemetry/jetstream"
	"github.com/weirswitch/weir/telemetry/query"
	"github.com/weirswitch/weir/telemetry/store"
	"github.com/weirswitch/weir/telemetry/view/api"
)

// regionQuestions are of all kinds: about a window, about all that there is, and about some flows.
func regionQuestions(from, to int64) (list []query.Question) {
	flow, _ := setFlow(3)
	key := query.FormatKey(query.Key(flow))
	for _, q := range append(pastQuestions(from, to),
		query.Question{Kind: query.KindNetwork, Start: from, End: to}, query.Question{Kind: query.KindDelay, From: "s1", To: "s2", Flow: key, Start: from, End: to},
		query.Question{Kind: query.KindLoss, From: "s1", To: "s2", Flow: key, Segments: true, Start: from, End: to},
		query.Question{Kind: query.KindFrequency, Flow: key, Start: from + setEpoch, End: from + 2*setEpoch}) {
		all := q
		all.Start, all.End = 0, 0
		list = append(list, q, all)
	}
	of := query.Question{Prefix: "10.0.0.0/28"}
	for _, k := range []query.Kind{query.KindPath, query.KindLatency, query.KindCongestion, query.KindLoops, query.KindVolume, query.KindHeavyHitters} {
		of.Kind = k
		list = append(list, of)
	}
	return list
}

// answerIn is an answer without ages, which are of the moment, and what is missing.
func (b *collectBed) answerIn(t *testing.T, ctx context.Context, q *query.Question) (answer map[string]any, missing []store.Missing, err error) {
	t.Helper()
	a, err := b.client.Ask(ctx, q)
	if err != nil {
		return nil, nil, err
	}
	text, err := json.Marshal(a)
	if err != nil {
		t.Fatal(err)
	}
	var rows struct {
		Missing []store.Missing `json:"missing"`
	}
	if err := errors.Join(json.Unmarshal(text, &answer), json.Unmarshal(text, &rows)); err != nil {
		t.Fatal(err)
	}
	switches, _ := answer["switches"].([]any)
	for _, s := range switches {
		if of, ok := s.(map[string]any); ok {
			delete(of, "age_ns")
			delete(of, "faults") // "not heard of for ..."
		}
	}
	return answer, rows.Missing, nil
}

// TestRegions: a collector that asks two regions, a set of two collectors with a NATS server of their own and one collector with another one, answers as one collector
// does that has all records. A region that is down, or silent, is named in the answers; of two collectors of a region one is enough.
func TestRegions(t *testing.T) {
	east, west, all := newSetBed(t, 2), newCollectBed(t, "", patient), newCollectBed(t, "", patient)
	east.join(t, "share = true\n")
	east.join(t, "share = true\n")
	west.start(t)
	all.start(t)
	top := newCollectBed(t, "", patient+fmt.Sprintf(`[[region]]
name = "east"
collectors = ["http://%s", "http://%s"]
[[region]]
name = "west"
collectors = ["http://%s"]
`, east.members[0].web, east.members[1].web, west.web))
	text, err := os.ReadFile(top.file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(top.file, []byte(strings.Replace(string(text), `name = "c1"`, `name = "top"`, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	top.start(t)

	spools := map[string]func(encodedRecord){}
	to := func(b *collectBed, r encodedRecord) {
		key := fmt.Sprint(b.nats, r.h.Switch)
		if spools[key] == nil {
			spool, _ := sender(t, jetstream.Options{Servers: []string{"nats://" + b.nats}, Inbox: jetstream.Acks(r.h.Switch)})
			spools[key] = func(r encodedRecord) {
				if err := spool.Write(r.h, r.body); err != nil {
					t.Error(err)
				}
			}
		}
		spools[key](r)
	}
	base := (clock.Kernel.TAI() - int64(5*time.Minute)) / setEpoch * setEpoch
	for _, r := range withStatus(t, base) {
		to(all, r)
		if r.h.Switch == 3 {
			to(west, r)
		} else {
			east.send(t, r)
		}
	}
	compare := func(what string) {
		t.Helper()
		for _, q := range regionQuestions(base, base+setEpochs*setEpoch) {
			awaitState(t, fmt.Sprintf("%s: one collector's answer to %+v", what, q), func() (string, bool) {
				want, _, err1 := all.answerIn(t, t.Context(), &q)
				got, _, err2 := top.answerIn(t, t.Context(), &q)
				return fmt.Sprintf("%.1500v %v\none: %.1500v %v", got, err2, want, err1), err1 == nil && err2 == nil && reflect.DeepEqual(got, want)
			})
		}
	}
	compare("two regions")
	if n := top.metric(t, `weir_collect_region_received_bytes_total{region="west"}`); n <= 0 {
		t.Errorf("%v bytes came from west", n)
	}

	lacking := func(what string, patience time.Duration, questions ...query.Question) {
		t.Helper()
		within := func() context.Context {
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			t.Cleanup(cancel)
			return ctx
		}
		for _, q := range questions {
			answer, missing, err := top.answerIn(t, within(), &q)
			if err != nil || len(missing) == 0 || missing[len(missing)-1].Of != store.OfRegion || missing[len(missing)-1].Region != "west" || missing[len(missing)-1].Unreached == "" {
				t.Errorf("%s: %v: %v, %+v, %.300v", what, q.Kind, err, missing, answer)
			}
			if text := fmt.Sprint(answer); q.Kind == query.KindLatency && !strings.Contains(text, "but those of region west") {
				t.Errorf("%s: it does not say of which flows it is: %.1000s", what, text)
			}
		}
		flow, path := setFlow(3)
		q := query.Question{Kind: query.KindPath, Flow: query.FormatKey(query.Key(flow))}
		if answer, _, err := top.answerIn(t, within(), &q); len(path) != 3 || err == nil || !strings.Contains(err.Error(), "region west") {
			t.Errorf("%s: a flow of the region, %v: %v, %.500v", what, path, err, answer)
		}
	}
	west.kill()
	lacking("killed", time.Minute, query.Question{Kind: query.KindVolume}, query.Question{Kind: query.KindLatency}, query.Question{Kind: query.KindNetwork})
	west.start(t)
	compare("both again")
	west.kill()
	silent, err := net.Listen("tcp", west.web) // whoever connects waits
	if err != nil {
		t.Fatal(err)
	}
	lacking("silent", 15*time.Second, query.Question{Kind: query.KindVolume})
	if err := silent.Close(); err != nil {
		t.Fatal(err)
	}
	west.start(t)
	compare("both once more")
	east.members[0].kill()
	awaitState(t, "the other collector of a region", func() (string, bool) {
		q := query.Question{Kind: query.KindVolume}
		want, _, err1 := all.answerIn(t, t.Context(), &q)
		got, _, err2 := top.answerIn(t, t.Context(), &q)
		return fmt.Sprintf("%.1500v %v\none: %.1500v %v", got, err2, want, err1), err1 == nil && err2 == nil && reflect.DeepEqual(got, want)
	})
	for _, b := range []*collectBed{top, all, west, east.members[1], east.one} {
		b.stop(t)
	}
}

// TestRegionsConflict: of two regions with a switch of one number the second one is left out, and the reason named.
func TestRegionsConflict(t *testing.T) {
	a, b := newCollectBed(t, "", patient), newCollectBed(t, "", patient)
	a.start(t)
	b.start(t)
	top := newCollectBed(t, "", patient+fmt.Sprintf("[[region]]\nname = \"a\"\ncollectors = [\"http://%s\"]\n[[region]]\nname = \"b\"\ncollectors = [\"http://%s\"]\n", a.web, b.web))
	top.start(t)
	base := (clock.Kernel.TAI() - int64(5*time.Minute)) / setEpoch * setEpoch
	r := withStatus(t, base)[0]
	for _, region := range []*collectBed{a, b} {
		spool, _ := sender(t, jetstream.Options{Servers: []string{"nats://" + region.nats}, Inbox: jetstream.Acks(r.h.Switch)})
		if err := spool.Write(r.h, r.body); err != nil {
			t.Fatal(err)
		}
	}
	awaitState(t, "the conflict", func() (string, bool) {
		_, missing, err := top.answerIn(t, t.Context(), &query.Question{Kind: query.KindVolume})
		want := "it has a switch of number 1, as region a has: each switch of all regions needs a number of its own, and each region is named once"
		return fmt.Sprint(missing, err), err == nil && slices.Contains(missing, store.Missing{Of: store.OfRegion, Region: "b", Unreached: want})
	})
	for _, x := range []*collectBed{top, a, b} {
		x.stop(t)
	}
}

// TestRegionsHostile: what a region's collector sends that is no answer, or without an end, is not taken, and does no harm to the answer about the others.
func TestRegionsHostile(t *testing.T) {
	head := func(text string) []byte { return append(binary.AppendUvarint(nil, uint64(len(text))), text...) }
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("a redirection is followed") }))
	defer elsewhere.Close()
	answers := map[string]struct {
		answer func(http.ResponseWriter)
		want   string
	}{
		"text":  {func(w http.ResponseWriter) { _, _ = w.Write([]byte("hello")) }, "cannot be read"},
		"empty": {func(http.ResponseWriter) {}, "cannot be read"},
		"large": {func(w http.ResponseWriter) { _, _ = w.Write(binary.AppendUvarint(nil, 1<<40)) }, "cannot be read"},
		"rows": {func(w http.ResponseWriter) {
			_, _ = w.Write(head(`{"v":1,"rest":{"lacks":[` + strings.Repeat("{},", 1<<16) + `{}]}}`))
		}, "more than 32768 rows"},
		"newer":   {func(w http.ResponseWriter) { _, _ = w.Write(head(`{"v":2}`)) }, "version 2"},
		"times":   {func(w http.ResponseWriter) { _, _ = w.Write(head(`{"v":1,"rest":{"ahead_ns":-5}}`)) }, "cannot be read"},
		"records": {func(w http.ResponseWriter) { _, _ = w.Write(append(head(`{"v":1}`), "no records"...)) }, "cannot be read"},
		"ends": {func(w http.ResponseWriter) {
			_, _ = w.Write(head(`{"v":1}`))
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		}, "ended before all"},
		"refuses": {func(w http.ResponseWriter) {
			http.Error(w, "\x1b[31m"+strings.Repeat("no ", 1<<20), http.StatusForbidden)
		}, "403 Forbidden: \uFFFD[31mno no"},
		"redirect": {func(w http.ResponseWriter) {
			w.Header().Set("Location", elsewhere.URL)
			w.WriteHeader(http.StatusTemporaryRedirect)
		}, "307"},
	}
	text := ""
	for name, a := range answers {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { a.answer(w) }))
		defer server.Close()
		text += fmt.Sprintf("[[region]]\nname = %q\ncollectors = [%q]\n", name, server.URL)
	}
	top := newCollectBed(t, "", patient+"bytes = 4194304\n"+text)
	top.start(t)
	r := withStatus(t, (clock.Kernel.TAI()-int64(time.Minute))/setEpoch*setEpoch)[0]
	spool, _ := sender(t, jetstream.Options{Servers: []string{"nats://" + top.nats}, Inbox: jetstream.Acks(r.h.Switch)})
	if err := spool.Write(r.h, r.body); err != nil {
		t.Fatal(err)
	}
	var missing []store.Missing
	awaitState(t, "an answer", func() (string, bool) {
		var err error
		_, missing, err = top.answerIn(t, t.Context(), &query.Question{Kind: query.KindVolume})
		return fmt.Sprint(err), err == nil
	})
	if len(missing) != len(answers) {
		t.Errorf("%d regions are missing, of %d", len(missing), len(answers))
	}
	for _, m := range missing {
		if want := answers[m.Region].want; !strings.Contains(m.Unreached, want) || len(m.Unreached) > 8<<10 {
			t.Errorf("region %s: %.200q, want %q", m.Region, m.Unreached, want)
		}
	}
	top.stop(t)

	endless := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, err := w.Write(head(`{"v":1}`))
		for piece := make([]byte, 1<<20); err == nil; {
			_, err = w.Write(piece)
		}
	}))
	defer endless.Close()
	top = newCollectBed(t, "", fmt.Sprintf("%sbytes = 4194304\n[[region]]\nname = \"endless\"\ncollectors = [%q]\n", patient, endless.URL))
	top.start(t)
	if _, err := top.client.Ask(t.Context(), &query.Question{Kind: query.KindVolume}); !errors.Is(err, query.ErrTooCostly) || !strings.Contains(err.Error(), "region endless") {
		t.Errorf("without an end: %v", err)
	}
	top.stop(t)
}

// TestRegionsSecure: a region gives records to whom it lets read, over TLS, and says so to others. It does not ask the regions that it has itself, so two that ask one
// another answer.
func TestRegionsSecure(t *testing.T) {
	certs := certtest.New(t, "tests")
	for _, name := range []string{"collector", "top", "stranger"} {
		certs.Sign(t, name, x509.Certificate{DNSNames: []string{name}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}})
	}
	files := func(name string) string {
		return fmt.Sprintf("certificate = %q\nkey = %q\nca = %q\n", certs.Path(name+".pem"), certs.Path(name+".key"), certs.Path("ca.pem"))
	}
	top, stranger := newCollectBed(t, "", ""), newCollectBed(t, "", "")
	region := newCollectBed(t, "", patient+"[tls]\nreaders = [\"top\"]\n"+files("collector")+
		fmt.Sprintf("[[region]]\nname = \"back\"\ncollectors = [\"http://%s\"]\n", top.web))
	for b, name := range map[*collectBed]string{top: "top", stranger: "stranger"} {
		b.replaceIn(t, "[log]\n", fmt.Sprintf("[[region]]\nname = \"west\"\ncollectors = [\"https://%s\"]\n%s%s[log]\n", region.web, files(name), patient))
		b.replaceIn(t, `name = "c1"`, fmt.Sprintf("name = %q", name))
	}
	for _, b := range []*collectBed{top, stranger, region} {
		b.start(t)
	}
	r := withStatus(t, (clock.Kernel.TAI()-int64(time.Minute))/setEpoch*setEpoch)[0]
	spool, _ := sender(t, jetstream.Options{Servers: []string{"nats://" + region.nats}, Inbox: jetstream.Acks(r.h.Switch)})
	if err := spool.Write(r.h, r.body); err != nil {
		t.Fatal(err)
	}
	q := query.Question{Kind: query.KindVolume}
	awaitState(t, "an answer with the region's record", func() (string, bool) {
		_, missing, err := top.answerIn(t, t.Context(), &q)
		return fmt.Sprint(missing, err), err == nil && len(missing) == 0
	})
	if _, _, err := stranger.answerIn(t, t.Context(), &q); err == nil || !strings.Contains(err.Error(), `"stranger" may not read`) {
		t.Errorf("a stranger: %v", err)
	}
	if text, err := http.Post("https://"+region.web+api.GatherPath, "application/json", strings.NewReader("{}")); err == nil {
		t.Errorf("without a certificate: %v", text.Status)
	}
	for _, b := range []*collectBed{top, stranger, region} {
		b.stop(t)
	}
}

// TestRegionsRequests: what is no request for records is refused.
func TestRegionsRequests(t *testing.T) {
	b := newCollectBed(t, "", "")
	b.start(t)
	for text, want := range map[string]int{
		"": 400, "{}": 400, `{"v":1,"time_ns":1000000000}`: 400, `{"v":2,"time_ns":1000000000,"question":{"kind":"volume"}}`: 400, `{"v":1,"question":{"kind":"volume"}}`: 400,
		`{"v":1,"time_ns":1000000000,"question":{"kind":"x"}}`: 400, `{"v":1,"time_ns":1000000000,"question":{"kind":"volume"},"more":1}`: 400,
		`{"v":1,"time_ns":9000000000,"question":{"kind":"volume"}}`: 200, `"` + strings.Repeat("x", 1<<21) + `"`: 400,
	} {
		r, err := http.Post("http://"+b.web+api.GatherPath, "application/json", strings.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		if _ = r.Body.Close(); r.StatusCode != want {
			t.Errorf("%.80s: %s", text, r.Status)
		}
	}
	b.stop(t)
}
