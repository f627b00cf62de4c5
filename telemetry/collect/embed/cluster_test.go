package embed

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/weirswitch/weir/telemetry/collect"
	"github.com/weirswitch/weir/telemetry/jetstream"
	"github.com/weirswitch/weir/telemetry/record"
)

// clusterOf makes the configurations of servers that know each other.
func clusterOf(t *testing.T, n int) []Config {
	t.Helper()
	password := secretFile(t, "cluster")
	var addresses []string
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		addresses = append(addresses, l.Addr().String())
		l.Close()
	}
	configs := make([]Config, n)
	for i := range configs {
		c := testConfig(t, t.TempDir())
		c.Name = fmt.Sprint("c", i)
		c.Log = zap.NewNop()
		c.NATS.Replicas = n
		c.NATS.Cluster = collect.Cluster{Name: "weir", Listen: addresses[i], Routes: addresses, PasswordFile: password}
		configs[i] = c
	}
	return configs
}

// TestCluster: of three servers one goes and comes back, while switches publish to the others:
// all collectors have every record once.
func TestCluster(t *testing.T) {
	t.Parallel()
	configs := clusterOf(t, 3)
	var servers [3]*Server
	var stores [3]*kept
	var stops [3]func()
	join := func(i int) {
		servers[i] = start(t, configs[i])
		stores[i] = &kept{}
		c := collect.New(collect.Config{
			Connect: servers[i].Connect, Partitions: collect.DefaultPartitions(), Log: zap.NewNop(),
			Stream: jetstream.StreamConfig{Age: time.Hour, Bytes: 256 << 20, Replicas: 3},
		}, stores[i])
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan struct{})
		go func() { c.Run(ctx); close(ended) }()
		stops[i] = func() { cancel(); <-ended }
	}
	leave := func(i int) {
		stops[i]()
		if err := servers[i].Close(); err != nil {
			t.Error(err)
		}
	}
	for i := range servers {
		join(i)
	}
	defer func() {
		for i := range servers {
			leave(i)
		}
	}()
	nc := connect(t, servers[0])
	all := func(n int) func() bool {
		return func() bool { return stores[0].len() == n && stores[1].len() == n && stores[2].len() == n }
	}
	eventually(t, "the stream is there", func() bool { return acknowledged(t, nc, record.Header{Kind: record.LDS, Switch: 1, Span: 1}) })
	send(t, nc, epochs(record.LDS, 2, 100), nil)
	eventually(t, "all have all", all(101))
	leave(2)
	eventually(t, "two go on", func() bool { return acknowledged(t, nc, record.Header{Kind: record.LDS, Switch: 3, Span: 1}) })
	send(t, nc, epochs(record.LDS, 4, 100), nil)
	join(2)
	eventually(t, "all have all again", all(202))
	for i, s := range stores {
		for id, n := range s.seen {
			if n != 1 {
				t.Errorf("collector %d: %q came %d times", i, id, n)
			}
		}
	}
}

// TestClusterStranger: who does not know the cluster's password is no server of it.
func TestClusterStranger(t *testing.T) {
	t.Parallel()
	configs := clusterOf(t, 2)
	configs[0].NATS.Replicas = 1
	s := start(t, configs[0])
	defer s.Close()
	for _, who := range []string{``, `"user":"weir","pass":"wrong",`} {
		c, err := net.Dial("tcp", configs[0].NATS.Cluster.Listen)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		_ = c.SetDeadline(time.Now().Add(20 * time.Second))
		r := bufio.NewReader(c)
		if line, err := r.ReadString('\n'); err != nil || !strings.HasPrefix(line, "INFO ") {
			t.Fatal(line, err)
		}
		fmt.Fprintf(c, "CONNECT {%s\"name\":\"x\",\"cluster\":\"weir\"}\r\nINFO {\"server_id\":\"x\",\"cluster\":\"weir\"}\r\nPING\r\n", who)
		refused := false
		for {
			line, err := r.ReadString('\n')
			refused = refused || strings.Contains(line, "Authorization Violation")
			if err != nil {
				break
			}
			if strings.HasPrefix(line, "PONG") {
				t.Error("a stranger is a server of the cluster")
				break
			}
		}
		if !refused {
			t.Error("a stranger is not told")
		}
	}
}
