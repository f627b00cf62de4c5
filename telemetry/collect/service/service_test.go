package service_test

import (
	"bytes"
	"cmp"
	"context"
	"crypto/x509"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"go.uber.org/zap"

	"github.com/weirswitch/weir/config"
	"github.com/weirswitch/weir/dataplane/lab/netnstest"
	"github.com/weirswitch/weir/internal/certtest"
	"github.com/weirswitch/weir/internal/freeport"
	"github.com/weirswitch/weir/pipeline/clock"
	"github.com/weirswitch/weir/telemetry/collect/service"
	"github.com/weirswitch/weir/telemetry/export"
	"github.com/weirswitch/weir/telemetry/jetstream"
	"github.com/weirswitch/weir/telemetry/pint"
	"github.com/weirswitch/weir/telemetry/pint/plan"
	"github.com/weirswitch/weir/telemetry/record"
	"github.com/weirswitch/weir/telemetry/view/api"
)

// testConfig makes the test binary be a collector with the configuration in this file, which writes the line "ready"
// to descriptor 3.
const testConfig = "WEIR_TEST_COLLECT"

func TestMain(m *testing.M) {
	file := os.Getenv(testConfig)
	if file == "" {
		netnstest.Isolate()
		os.Exit(m.Run())
	}
	err := func() error {
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
		defer stop()
		c, err := config.LoadCollect(file)
		if err != nil {
			return err
		}
		level := zap.NewAtomicLevelAt(zap.DebugLevel)
		logs := zap.NewDevelopmentConfig()
		logs.Level = level
		log, err := logs.Build()
		if err != nil {
			return err
		}
		s, err := service.New(c, service.Options{Log: log, Level: level, Ready: func() error {
			ready := os.NewFile(3, "ready")
			_, err := ready.WriteString("ready\n")
			return errors.Join(err, ready.Close())
		}})
		if err != nil {
			return err
		}
		return s.Run(ctx)
	}()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// collectBed is a collector as a process, at ports of its own, with its folder.
type collectBed struct {
	dir, web, nats string
	file           string
	cmd            *exec.Cmd
	stderr         *lockedBuffer
	client         *api.Client
}

// lockedBuffer is written by a process's reader while a test reads it.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// newCollectBed writes a configuration: more is its text behind [collect] and [nats], own goes
// into [nats].
func newCollectBed(t testing.TB, own, more string) *collectBed {
	t.Helper()
	b := &collectBed{dir: t.TempDir(), web: freeport.Address(t), nats: freeport.Address(t), stderr: new(lockedBuffer)}
	listen := fmt.Sprintf("listen = %q\n", b.nats)
	if strings.Contains(own, "servers") {
		listen = ""
	}
	b.file = filepath.Join(b.dir, "collect.toml")
	text := fmt.Sprintf("[collect]\nname = \"c1\"\nlisten = %q\ndata = %q\n[nats]\n%s%s\n[log]\nlevel = \"debug\"\n%s", b.web, filepath.Join(b.dir, "data"), listen, own, more)
	if err := os.WriteFile(b.file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	var err error
	if b.client, err = api.NewClient("http://"+b.web, api.ClientTLS{}); err != nil {
		t.Fatal(err)
	}
	return b
}

// start starts the collector and waits until it is ready.
func (b *collectBed) start(t testing.TB) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	b.cmd = exec.Command(os.Args[0])
	b.cmd.Env = append(os.Environ(), testConfig+"="+b.file)
	b.cmd.ExtraFiles, b.cmd.Stderr = []*os.File{w}, b.stderr
	if err := b.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	w.Close()
	t.Cleanup(b.kill)
	_ = r.SetReadDeadline(time.Now().Add(3 * time.Minute))
	if line, err := io.ReadAll(r); err != nil || string(line) != "ready\n" {
		t.Fatalf("the collector is not ready: %q, %v\n%s", line, err, b.stderr)
	}
}

// kill ends it at once, if it runs.
func (b *collectBed) kill() {
	if b.cmd.ProcessState == nil {
		_ = b.cmd.Process.Kill()
		_ = b.cmd.Wait()
	}
}

// stop ends it as an operator does.
func (b *collectBed) stop(t testing.TB) {
	t.Helper()
	if err := b.cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if err := b.cmd.Wait(); err != nil {
		t.Errorf("%v\n%s", err, b.stderr)
	}
}

// status asks for it until the collector answers.
func (b *collectBed) status(t testing.TB) *api.CollectorStatus {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	for {
		s, err := b.client.Collector(ctx, &api.CollectorRequest{})
		if err == nil {
			return s
		}
		if ctx.Err() != nil {
			t.Fatalf("%v\n%s", err, b.stderr)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// collectedKind is what a status says of a kind.
func collectedKind(s *api.CollectorStatus, k record.Kind) *api.KindStatus {
	for _, x := range s.Kinds {
		if x.Kind == k.String() {
			return x
		}
	}
	return &api.KindStatus{Kind: k.String()}
}

// digests makes batches of digests that differ, as a sink's.
type digests struct {
	sw    uint32
	base  int64
	every int64 // ns between two batches; 0: 65,536
	next  uint64
}

const digestsEach = 20

// flow is the flow of a number.
func digestFlow(n uint64) pint.FlowKey {
	k := pint.FlowKey{SrcPort: 1000, DstPort: 80, Proto: 17, Version: 4}
	binary.BigEndian.PutUint32(k.Src[:], 10<<24|uint32(n%64))
	binary.BigEndian.PutUint32(k.Dst[:], 10<<24|1<<16)
	return k
}

// batch is the next record.
func (d *digests) batch(t testing.TB) (*record.Header, []byte) {
	t.Helper()
	flow := digestFlow(d.next)
	start := d.base + int64(d.next)*cmp.Or(d.every, 1<<16)
	b := &pint.DigestBatch{Boot: 7, Sequence: d.next, Sent: d.next * digestsEach, Plan: plan.Default().ID}
	for i := range uint64(digestsEach) {
		b.Records = append(b.Records, pint.Record{Flow: flow, ID: d.next<<8 | i, Digest: i, TimeNs: uint64(start) + i, Plan: b.Plan, Hops: 3})
	}
	h := &record.Header{
		Kind: record.PINT, Switch: d.sw, Name: fmt.Sprint("s", d.sw), Instance: uint16(flow.Partition(record.Partitions)),
		Plan: b.Plan, Start: start, Span: 1 << 16,
	}
	encoded, err := record.Append(nil, h, func(dst []byte) ([]byte, error) { return pint.AppendDigests(dst, b), nil })
	if err != nil {
		t.Fatal(err)
	}
	d.next++
	return h, encoded
}

// sender is a switch's spool and shipper.
func sender(t testing.TB, o jetstream.Options) (*export.Spool, *export.Shipper) {
	t.Helper()
	c := export.DefaultConfig()
	c.Spool = t.TempDir()
	spool, err := export.OpenSpool(c, "s1")
	if err != nil {
		t.Fatal(err)
	}
	shipper, err := export.Ship(spool, o, func(export.Status) {})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := shipper.Stop(0); err != nil {
			t.Error(err)
		}
		if err := spool.Close(); err != nil {
			t.Error(err)
		}
	})
	return spool, shipper
}

// TestCollectSecondOfFolder: a second collector with the folder of the first is refused in a
// sentence, and the first goes on.
func TestCollectSecondOfFolder(t *testing.T) {
	b := newCollectBed(t, "", "")
	b.start(t)
	text, err := os.ReadFile(b.file)
	if err != nil {
		t.Fatal(err)
	}
	other := strings.NewReplacer(b.web, freeport.Address(t), b.nats, freeport.Address(t)).Replace(string(text))
	c, err := config.ParseCollect([]byte(other))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := service.New(c, service.Options{}); err == nil || !strings.Contains(err.Error(), "another collector works in "+filepath.Join(b.dir, "data")) {
		t.Error(err)
	}
	b.status(t)
	b.stop(t)
}

// awaitState waits until something is so.
func awaitState(t testing.TB, what string, ok func() (now string, done bool)) {
	t.Helper()
	for deadline := time.Now().Add(3 * time.Minute); ; time.Sleep(20 * time.Millisecond) {
		now, done := ok()
		if done {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("waited for %s in vain: %s", what, now)
		}
	}
}

// TestCollectSecure: with certificates a switch publishes under its own number alone, readers
// ask, admins change, strangers do neither; and what the collector says has no secret in it.
func TestCollectSecure(t *testing.T) {
	certs := certtest.New(t, "tests")
	for _, name := range []string{"collector", "s3", "operator", "monitor"} {
		certs.Sign(t, name, x509.Certificate{DNSNames: []string{name}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}})
	}
	path := certs.Path
	const secret = "sesame-of-the-switch"
	if err := os.WriteFile(path("password"), []byte(secret+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	tlsText := fmt.Sprintf("certificate = %q\nkey = %q\nca = %q\n", path("collector.pem"), path("collector.key"), path("ca.pem"))
	b := newCollectBed(t, "", "[nats.tls]\n"+tlsText+
		fmt.Sprintf("[[nats.client]]\nname = \"s3\"\nswitch = 3\npassword_file = %q\n", path("password"))+
		"[tls]\nadmins = [\"operator\"]\nreaders = [\"monitor\"]\n"+tlsText)
	b.start(t)
	o := jetstream.Options{
		Servers: []string{"tls://" + b.nats}, TLSCA: path("ca.pem"), TLSCert: path("s3.pem"), TLSKey: path("s3.key"),
		User: "s3", PasswordFile: path("password"), Inbox: jetstream.Acks(3),
	}
	refused := make(chan error, 1)
	nc, err := o.Dial(nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { refused <- err }))
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	acks := make(chan jetstream.Ack, 1)
	p, err := jetstream.NewPublisher(nc, jetstream.Secret{}, func(a jetstream.Ack) { acks <- a })
	if err != nil {
		t.Fatal(err)
	}
	awaitState(t, "a connection", func() (string, bool) { return fmt.Sprint(nc.LastError()), nc.IsConnected() })
	for _, sw := range []uint32{3, 4} {
		d := &digests{sw: sw, base: clock.Kernel.TAI()}
		h, encoded := d.batch(t)
		if err := p.Publish(uint64(sw), h, encoded); err != nil {
			t.Fatal(err)
		}
	}
	if a := <-acks; a.Err != nil || a.Number != 3 {
		t.Errorf("%+v", a)
	}
	if err := <-refused; !strings.Contains(strings.ToLower(err.Error()), "permissions violation") {
		t.Error(err)
	}

	client := func(name string) *api.Client {
		c, err := api.NewClient("https://"+b.web, api.ClientTLS{Certificate: path(name + ".pem"), Key: path(name + ".key"), CA: path("ca.pem")})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	b.client = client("monitor")
	awaitState(t, "the record", func() (string, bool) {
		s := b.status(t)
		return fmt.Sprint(s.Kinds), collectedKind(s, record.PINT).Records == 1 && len(s.Switches) == 1 && s.Switches[0].Id == 3
	})
	curl := func(name string, args ...string) string {
		args = append(args, "-sS", "--cacert", path("ca.pem"))
		if name != "" {
			args = append(args, "--cert", path(name+".pem"), "--key", path(name+".key"))
		}
		out, _ := exec.Command("curl", args...).CombinedOutput()
		return string(out)
	}
	if _, err := exec.LookPath("curl"); err == nil {
		url := "https://" + b.web
		if out := curl("operator", "-X", "PUT", url+"/admin/log-level?level=info"); out != "info\n" {
			t.Errorf("an admin: %s", out)
		}
		if out := curl("monitor", "-X", "PUT", url+"/admin/log-level?level=debug"); !strings.Contains(out, `"monitor" may read, but not change`) {
			t.Errorf("a reader: %s", out)
		}
		for _, path := range []string{"/", "/schema/query.proto", "/records/samples", "/weir.query.v1.QueryService/Ask"} {
			if out := curl("s3", "-d", "{}", url+path); !strings.Contains(out, `"s3" may not read`) {
				t.Errorf("a switch reads %s: %s", path, out)
			}
		}
		if out := curl("", url+"/metrics"); strings.Contains(out, "weir_collect") {
			t.Errorf("a stranger: %s", out)
		}
		if out := curl("monitor", url+"/metrics"); !strings.Contains(out, "weir_collect_records_total{kind=\"pint\",outcome=\"applied\"} 1\n") || strings.Contains(out, secret) {
			t.Errorf("metrics: %s", out)
		}
	}
	b.stop(t)
	c, err := config.LoadCollect(b.file)
	if err != nil {
		t.Fatal(err)
	}
	var dump strings.Builder
	if err := c.Dump(&dump); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"log": b.stderr.String(), "dump": dump.String()} {
		if strings.Contains(text, secret) || text == "" {
			t.Errorf("the %s has a secret in it, or nothing: %s", name, text)
		}
	}
}

// TestCollectAsked: questions that are too large, of no flow known, or no question, have clear
// answers over HTTP.
func TestCollectAsked(t *testing.T) {
	b := newCollectBed(t, "", "[limits]\nrequest_bytes = 2000\nqueries = 1\n")
	b.start(t)
	for _, c := range []struct{ method, path, body, want string }{
		{"POST", "Ask", `{"question":{"kind":"path","flow":"10.0.0.1:1 > 10.0.0.2:2 udp"}}`, `"not_found"`},
		{"POST", "Ask", `{"question":{"kind":"volume","flow":"x","theta":7}}`, `"invalid_argument"`},
		{"POST", "Ask", `{"question":{"kind":"volume","src":"` + strings.Repeat("1", 5000) + `"}}`, `the request has more than 2000 bytes`},
		{"POST", "Ask", `{`, `"invalid_argument"`},
		{"POST", "Ask", `{"secret":1}`, `"invalid_argument"`},
		{"GET", "Ask", "", ""},
	} {
		r, err := http.NewRequest(c.method, "http://"+b.web+"/weir.query.v1.QueryService/"+c.path, strings.NewReader(c.body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		text, _ := io.ReadAll(answer.Body)
		answer.Body.Close()
		if answer.StatusCode == 200 || !strings.Contains(string(text), c.want) || len(text) > 2000 {
			t.Errorf("%.60s: %s: %s", c.body, answer.Status, text)
		}
	}
	for path, want := range map[string]string{"/": "<!doctype html>", "/schema/query.proto": "service QueryService", "/healthz": "ok", "/readyz": "ready", "/metrics": `weir_collect_queries_total{kind="path",outcome="not_found"} 1`} {
		answer, err := http.Get("http://" + b.web + path)
		if err != nil {
			t.Fatal(err)
		}
		text, _ := io.ReadAll(answer.Body)
		answer.Body.Close()
		if answer.StatusCode != 200 || !strings.Contains(string(text), want) {
			t.Errorf("%s: %s: %.300s", path, answer.Status, text)
		}
	}
	b.stop(t)
}

// metrics are those of a collector, as Prometheus gets them.
func (b *collectBed) metrics(t *testing.T) string {
	t.Helper()
	answer, err := http.Get("http://" + b.web + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
