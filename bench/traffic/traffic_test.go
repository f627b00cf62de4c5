package traffic

import (
	"context"
	"testing"
	"time"

	"github.com/weirswitch/weir/dataplane/lab/netns"
	"github.com/weirswitch/weir/dataplane/lab/netnstest"
)

// cable makes a veth pair between two namespaces.
func cable(t testing.TB, queues int) (a, b Port) {
	t.Helper()
	netnstest.Require(t)
	nsA, nsB := netnstest.New(t, "wt"), netnstest.New(t, "wt")
	must(t, nsA.DisableIPv6())
	must(t, nsB.DisableIPv6())
	must(t, netns.AddVeth(netns.End{Namespace: nsA, Name: "a"}, netns.End{Namespace: nsB, Name: "b"}, netns.Veth{Queues: queues, MTU: 3000}))
	must(t, nsA.SetUp("a"))
	must(t, nsB.SetUp("b"))
	return Port{nsA, "a", AnyCore}, Port{nsB, "b", AnyCore}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestLiveToXDP(t *testing.T) {
	a, b := cable(t, 1)
	w := DefaultWorkload()
	sink, err := NewXDPSink(b, w, DefaultSinkOptions(), false)
	must(t, err)
	defer sink.Close()
	source, err := NewLiveSource(a, w)
	must(t, err)
	defer source.Close()
	sent, err := source.Run(context.Background(), Load{Rate: 100e3, Duration: 500 * time.Millisecond})
	must(t, err)
	time.Sleep(20 * time.Millisecond)
	r, err := sink.Report()
	must(t, err)
	t.Logf("%+v", sent)
	h := r.Latency
	r.Latency = nil
	t.Logf("%+v p50 %d p99 %d max %d", r, h.ValueAtPercentile(50), h.ValueAtPercentile(99), h.Max())
}
