package main

import (
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// TestAbuseUnderLoad: while clients of all kinds misbehave, numbered packets go
// through as before: none is lost, and the latency is printed.
func TestAbuseUnderLoad(t *testing.T) {
	if _, err := exec.LookPath("openssl"); err != nil {
		t.Skip("no openssl to make certificates with")
	}
	r := newRouter(t)
	certificates(t, r.dir, "switch", "operator", "monitor")
	// The address is in the switch's namespace, which has no loopback yet.
	if err := r.ns.SetUp("lo"); err != nil {
		t.Fatal(err)
	}
	p := r.start(t, r.write(t, 1, fmt.Sprintf(`[control.tls]
listen = "127.0.0.1:9465"
certificate = "%[1]s/switch.pem"
key = "%[1]s/switch.key"
client_ca = "%[1]s/ca.pem"
admins = ["operator"]
`, r.dir)))
	calm := r.measure(t, func() { time.Sleep(2 * time.Second) })
	abused := r.measure(t, func() { r.abuse(t) })
	fmt.Printf("abuse: before: %v\nabuse: during: %v\n", calm, abused)
	r.refusedMuch(t)
	for _, m := range []measured{calm, abused} {
		if m.lost != 0 {
			t.Errorf("%d of %d packets are lost", m.lost, m.sent)
		}
	}
	tlsArgs := func(name, verb string) []string {
		return []string{"ctl", "--address", "127.0.0.1:9465", "--cert", filepath.Join(r.dir, name+".pem"), "--key", filepath.Join(r.dir, name+".key"),
			"--ca", filepath.Join(r.dir, "ca.pem"), "--server-name", "switch", verb}
	}
	if status, out := r.inside(t, append(tlsArgs("operator", "set"), "acl", "add", "action=count")...); status != 0 {
		t.Errorf("the operator may not change: %s", out)
	}
	if status, out := r.inside(t, append(tlsArgs("monitor", "show"), "acl")...); status != 0 || !strings.Contains(out, "count") {
		t.Errorf("the monitor may not read: %s", out)
	}
	if status, out := r.inside(t, append(tlsArgs("monitor", "clear"), "acl")...); status != 2 || !strings.Contains(out, `weir: certificate "monitor" may read, but not change`) {
		t.Errorf("the monitor: status %d, %s", status, out)
	}
	log, err := os.ReadFile(filepath.Join(r.dir, "audit.log"))
	if err != nil || !strings.Contains(string(log), `"certificate":"operator"`) || !regexp.MustCompile(`"call":"clear","certificate":"monitor","asked":".*","result":"refused: not an admin"`).Match(log) {
		t.Errorf("the audit log: %v\n%s", err, log)
	}
	if status := p.stop(t); status != 0 {
		t.Errorf("status %d: %s", status, &p.stderr)
	}
}

// certificates makes an authority and a certificate for each name, which is good for
// 127.0.0.1 too.
func certificates(t *testing.T, dir string, names ...string) {
	t.Helper()
	openssl := func(args ...string) {
		t.Helper()
		cmd := exec.Command("openssl", args...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("openssl %v: %v\n%s", args, err, out)
		}
	}
	key := []string{"-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"}
	openssl(append([]string{"req", "-x509", "-subj", "/CN=tests", "-keyout", "ca.key", "-out", "ca.pem", "-days", "2"}, key...)...)
	for _, name := range names {
		openssl(append([]string{"req", "-subj", "/CN=" + name, "-keyout", name + ".key", "-out", name + ".csr", "-addext", "subjectAltName=DNS:" + name + ",IP:127.0.0.1"}, key...)...)
		openssl("x509", "-req", "-in", name+".csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-out", name+".pem", "-days", "2", "-copy_extensions", "copy")
	}
}

// inside runs a command line of weir in the switch's namespace.
func (r *changingRouter) inside(t *testing.T, args ...string) (status int, out string) {
	t.Helper()
	cmd := weirCommand(args...)
	var b strings.Builder
	cmd.Stdout, cmd.Stderr = &b, &b
	if err := r.ns.Start(cmd); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	return cmd.ProcessState.ExitCode(), b.String()
}

// measured is what became of a load.
type measured struct {
	sent                uint64
	lost                int64
	median, high, worst time.Duration
}

func (m measured) String() string {
	return fmt.Sprintf("sent %d, lost %d, latency median %v, 99 %% %v, most %v", m.sent, m.lost, m.median, m.high, m.worst)
}

// measure sends numbered packets while f works.
func (r *changingRouter) measure(t *testing.T, f func()) measured {
	t.Helper()
	l := r.load(t, 2000, 6000)
	f()
	sent, at := l.Received(t)
	report, err := l.Sinks[0].Report()
	if err != nil {
		t.Fatal(err)
	}
	quantile := func(q float64) time.Duration { return time.Duration(report.Latency.ValueAtQuantile(q)) }
	return measured{sent, int64(sent) - int64(at[0]+at[1]), quantile(50), quantile(99), quantile(100)}
}

// abuse is what a server meets on a bad day, for two seconds or more.
func (r *changingRouter) abuse(t *testing.T) {
	strangers := r.strangers(t)
	var tried, answered [6]atomic.Uint64
	var all sync.WaitGroup
	dial := func(i int) (net.Conn, error) {
		if i%2 == 0 {
			return r.ns.Dial(t.Context(), "tcp", "127.0.0.1:9465")
		}
		return net.Dial("unix", r.socket(r.name))
	}
	var idle []net.Conn
	for i := range 1000 {
		if c, err := dial(i); err == nil {
			idle = append(idle, c)
		}
	}
	// On a busy machine the idle ones may take seconds; each of the others has several tries.
	const leastTries, mostDials = 10, 100_000
	end := time.Now().Add(2 * time.Second)
	for i := range 6 {
		all.Go(func() {
			for dials := 0; dials < mostDials && (tried[i].Load() < leastTries || time.Now().Before(end)); dials++ {
				c, err := dial(i)
				if err != nil {
					continue
				}
				_ = c.SetDeadline(time.Now().Add(100 * time.Millisecond))
				tried[i].Add(1)
				if i == 4 || i == 0 { // over TCP: no certificate, or a wrong one
					c = tls.Client(c, strangers[i/4])
				}
				_, _ = io.WriteString(c, []string{
					"GET / HTTP/1.1\r\nHost: w\r\n\r\n",
					"POST /weir.v1.Admin/Reload HTTP/1.1\r\nHost: w\r\nContent-Type: application/json\r\nContent-Length: 99999999\r\n\r\n" + strings.Repeat("x", 1<<20),
					"\x16\x03\x01 no handshake and no request\r\n\r\n",
					"POST /weir.v1.Switch/Report HTTP/1.1\r\nHost: w\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n{\"toml\":[",
					"GET / HTTP/1.1\r\nHost: w\r\n\r\n",
					"POST /weir.v1.Switch/Report HTTP/1.1\r\nHost: w\r\nX: " + strings.Repeat("x", 1<<20),
				}[i])
				if answer, _ := io.ReadAll(c); strings.HasPrefix(string(answer), "HTTP/1.1 2") {
					answered[i].Add(1)
				}
				_ = c.Close()
			}
		})
	}
	all.Wait()
	for i, what := range []string{"no certificate", "oversized request", "no handshake", "malformed request", "wrong certificate", "oversized header"} {
		fmt.Printf("abuse: %s: tried %d times, let in %d times\n", what, tried[i].Load(), answered[i].Load())
		if answered[i].Load() != 0 || tried[i].Load() < leastTries {
			t.Errorf("%s: %d of %d were let in", what, answered[i].Load(), tried[i].Load())
		}
	}
	for _, c := range idle {
		_ = c.Close()
	}
}

// strangers are clients without a certificate, and with one that another authority made.
func (r *changingRouter) strangers(t *testing.T) (all [2]*tls.Config) {
	t.Helper()
	dir := t.TempDir()
	certificates(t, dir, "operator")
	other, err := tls.LoadX509KeyPair(filepath.Join(dir, "operator.pem"), filepath.Join(dir, "operator.key"))
	if err != nil {
		t.Fatal(err)
	}
	// Whom they talk to is not what is tested.
	all[0] = &tls.Config{InsecureSkipVerify: true}
	all[1] = &tls.Config{InsecureSkipVerify: true, Certificates: []tls.Certificate{other}}
	return all
}

// refusedMuch: most of 1,000 idle connections were closed at once, and the switch
// counts it.
func (r *changingRouter) refusedMuch(t *testing.T) {
	t.Helper()
	for line := range strings.Lines(r.ctl(t, "show", "telemetry")) {
		if strings.Contains(line, "refused_connections_total") {
			fmt.Printf("abuse: %s\n", strings.Join(strings.Fields(line), " "))
			return
		}
	}
	t.Error("connections refused are not shown")
}
