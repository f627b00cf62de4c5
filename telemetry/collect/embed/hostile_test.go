package embed

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	nats_js "github.com/nats-io/nats.go/jetstream"

	"github.com/weirswitch/weir/internal/certtest"
	"github.com/weirswitch/weir/telemetry/collect"
	"github.com/weirswitch/weir/telemetry/jetstream"
	"github.com/weirswitch/weir/telemetry/record"
)

// TestCollectorMayNotChange: who reads records for another collector can neither have the stream keep less, nor seal it,
// nor make one that is not there.
func TestCollectorMayNotChange(t *testing.T) {
	t.Parallel()
	config := testConfig(t, t.TempDir())
	config.NATS.Clients = []collect.Client{
		{Name: "s3", PasswordFile: secretFile(t, "three"), Role: collect.RoleSwitch, Switch: 3},
		{Name: "second", PasswordFile: secretFile(t, "two"), Role: collect.RoleCollector},
	}
	s := start(t, config)
	defer s.Close()
	c, stop := collecting(t, s, collect.DefaultPartitions(), &kept{})
	defer stop()
	<-c.Ready()
	send(t, connect(t, s, nats.UserInfo("s3", "three"), nats.CustomInboxPrefix(jetstream.Acks(3))), epochs(record.LDS, 3, 10), nil)
	nc := connect(t, s, nats.UserInfo("second", "two"), nats.CustomInboxPrefix(jetstream.Inbox("second")))
	js, err := nats_js.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	stream, err := js.Stream(t.Context(), jetstream.Stream)
	if err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*nats_js.StreamConfig){
		"keep one message":     func(c *nats_js.StreamConfig) { c.MaxMsgs = 1 },
		"keep one byte":        func(c *nats_js.StreamConfig) { c.MaxBytes = 1 },
		"keep for a second":    func(c *nats_js.StreamConfig) { c.MaxAge, c.Duplicates = time.Second, time.Second },
		"seal":                 func(c *nats_js.StreamConfig) { c.Sealed = true },
		"deliver to elsewhere": func(c *nats_js.StreamConfig) { c.RePublish = &nats_js.RePublish{Source: ">", Destination: "x.>"} },
	} {
		changed := stream.CachedInfo().Config
		change(&changed)
		body, err := json.Marshal(changed)
		if err != nil {
			t.Fatal(err)
		}
		for _, call := range []string{"STREAM.UPDATE.WEIR", "STREAM.CREATE.WEIR", "STREAM.CREATE.OTHER"} {
			if m, err := nc.Request("$JS.API."+call, body, time.Second/4); err == nil {
				t.Errorf("%s: %s is answered: %s", name, call, m.Data)
			}
		}
	}
	info, err := stream.Info(t.Context())
	if err != nil || info.State.Msgs != 10 || len(jetstream.StreamConfig{Age: time.Hour, Bytes: config.Retention.Bytes}.Drift(info.Config)) != 0 {
		t.Errorf("%v, %+v", err, info)
	}
	if !info.Config.DenyDelete || !info.Config.DenyPurge {
		t.Errorf("messages may be deleted: %+v", info.Config)
	}
	// The second one reads what is there all the same.
	second := &kept{}
	reader := collect.New(collect.Config{Connect: func(context.Context) (*nats.Conn, error) {
		return nats.Connect(s.URL(), nats.UserInfo("second", "two"), nats.CustomInboxPrefix(jetstream.Inbox("second")))
	}, Stream: jetstream.StreamConfig{Age: time.Hour, Bytes: config.Retention.Bytes}, Partitions: collect.DefaultPartitions(), Log: quiet(t)}, second)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { reader.Run(ctx); close(ended) }()
	eventually(t, "the second collector reads", func() bool { return second.len() == 10 })
	cancel()
	<-ended
}

// TestDrift: a stream that somebody with more rights has changed is put right, and reported; one that is sealed is
// reported for as long as it is.
func TestDrift(t *testing.T) {
	t.Parallel()
	s := start(t, testConfig(t, t.TempDir()))
	defer s.Close()
	c, stop := collecting(t, s, collect.DefaultPartitions(), &kept{})
	defer stop()
	<-c.Ready()
	own, err := s.Connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer own.Close()
	js, err := nats_js.New(own)
	if err != nil {
		t.Fatal(err)
	}
	change := func(edit func(*nats_js.StreamConfig)) {
		t.Helper()
		stream, err := js.Stream(t.Context(), jetstream.Stream)
		if err != nil {
			t.Fatal(err)
		}
		config := stream.CachedInfo().Config
		edit(&config)
		if _, err := js.UpdateStream(t.Context(), config); err != nil {
			t.Fatal(err)
		}
	}
	change(func(c *nats_js.StreamConfig) { c.MaxMsgs = 1 })
	eventually(t, "the change is reported", func() bool { return strings.Contains(c.Status().Drift, "max_msgs is 1") })
	eventually(t, "the change is undone", func() bool { return c.Status().Drift == "" })
	change(func(c *nats_js.StreamConfig) { c.Sealed = true })
	eventually(t, "the seal is reported", func() bool { return strings.Contains(c.Status().Drift, "sealed") })
	if err := own.Publish(jetstream.Subject(&epochs(record.LDS, 3, 1)[0]), nil); err != nil {
		t.Fatal(err)
	}
}

// TestConnectionsOfOne: a client with credentials has so many connections, and an address a part of all, so that others
// still come in.
func TestConnectionsOfOne(t *testing.T) {
	t.Parallel()
	config := testConfig(t, t.TempDir())
	config.NATS.ClientConnections = 2
	config.NATS.Clients = []collect.Client{
		{Name: "s3", PasswordFile: secretFile(t, "three"), Role: collect.RoleSwitch, Switch: 3},
		{Name: "s4", PasswordFile: secretFile(t, "four"), Role: collect.RoleSwitch, Switch: 4},
	}
	s := start(t, config)
	defer s.Close()
	first := connect(t, s, nats.UserInfo("s3", "three"), nats.CustomInboxPrefix(jetstream.Acks(3)))
	connect(t, s, nats.UserInfo("s3", "three"), nats.CustomInboxPrefix(jetstream.Acks(3)))
	if nc, err := nats.Connect(s.URL(), nats.UserInfo("s3", "three")); err == nil {
		nc.Close()
		t.Error("a third connection of one client")
	}
	connect(t, s, nats.UserInfo("s4", "four"), nats.CustomInboxPrefix(jetstream.Acks(4)))
	first.Close()
	eventually(t, "a connection that was left is there for the next", func() bool {
		nc, err := nats.Connect(s.URL(), nats.UserInfo("s3", "three"))
		if err == nil {
			nc.Close()
		}
		return err == nil
	})
	// Of whom the server knows nothing it reads little.
	c, err := net.Dial("tcp", s.Address())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(2 * time.Minute))
	go func() { _, _ = io.Copy(c, strings.NewReader(strings.Repeat("PING ", 1<<20))) }()
	if _, err := io.Copy(io.Discard, c); err != nil && !strings.Contains(err.Error(), "reset") {
		t.Errorf("who says nothing of use keeps its connection: %v", err)
	}
}

// TestOverShare: from a client that has more than its share of the stream nothing is taken; others go on.
func TestOverShare(t *testing.T) {
	t.Parallel()
	config := testConfig(t, t.TempDir())
	config.NATS.Clients = []collect.Client{
		{Name: "s3", PasswordFile: secretFile(t, "three"), Role: collect.RoleSwitch, Switch: 3},
		{Name: "s4", PasswordFile: secretFile(t, "four"), Role: collect.RoleSwitch, Switch: 4},
	}
	s := start(t, config)
	defer s.Close()
	three := connect(t, s, nats.UserInfo("s3", "three"), nats.MaxReconnects(-1), nats.ReconnectWait(10*time.Millisecond), nats.IgnoreAuthErrorAbort())
	four := connect(t, s, nats.UserInfo("s4", "four"))
	s.Restrict(map[string]bool{"s3": true})
	eventually(t, "the flood is cut off", func() bool { return !three.IsConnected() })
	if err := four.FlushTimeout(time.Minute); err != nil {
		t.Errorf("another client: %v", err)
	}
	s.Restrict(nil)
	eventually(t, "it may come back", three.IsConnected)
}

// TestRevokedSwitch: a switch whose certificate is revoked is cut off, and does not come in again; a renewed certificate of
// the server is used without a restart.
func TestRevokedSwitch(t *testing.T) {
	t.Parallel()
	a := certtest.New(t, "network")
	for _, name := range []string{"collector", "s3", "s4"} {
		a.Sign(t, name, x509.Certificate{IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}})
	}
	a.Revoke(t, "crl.pem")
	config := testConfig(t, t.TempDir())
	config.NATS.TLS = collect.TLS{Certificate: a.Path("collector.pem"), Key: a.Path("collector.key"), CA: a.Path("ca.pem"), Revoked: a.Path("crl.pem")}
	for sw := uint32(3); sw <= 4; sw++ {
		config.NATS.Clients = append(config.NATS.Clients, collect.Client{Name: fmt.Sprint("s", sw), Role: collect.RoleSwitch, Switch: sw})
	}
	s := start(t, config)
	defer s.Close()
	of := func(name string) []nats.Option {
		return []nats.Option{
			nats.ClientCert(a.Path(name+".pem"), a.Path(name+".key")), nats.RootCAs(a.Path("ca.pem")),
			nats.MaxReconnects(-1), nats.ReconnectWait(10 * time.Millisecond), nats.IgnoreAuthErrorAbort(),
		}
	}
	three, four := connect(t, s, of("s3")...), connect(t, s, of("s4")...)
	before := four.Stats().Reconnects
	a.Sign(t, "collector", x509.Certificate{IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}})
	a.Revoke(t, "crl.pem", "s3")
	eventually(t, "the other switch connects anew", func() bool { return four.Stats().Reconnects > before && four.IsConnected() })
	eventually(t, "the revoked switch is out", func() bool {
		if three.IsConnected() {
			return false
		}
		nc, err := nats.Connect(s.URL(), of("s3")[:2]...)
		if err == nil {
			nc.Close()
		}
		return err != nil
	})
}
