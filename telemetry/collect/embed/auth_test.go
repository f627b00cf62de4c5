package embed

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/weirswitch/weir/telemetry/collect"
	"github.com/weirswitch/weir/telemetry/jetstream"
	"github.com/weirswitch/weir/telemetry/record"
)

func secretFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(path, []byte(text+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// violations are a client's refusals, as its server reports them.
func violations() (nats.Option, <-chan error) {
	found := make(chan error, 64)
	return nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
		select {
		case found <- err:
		default:
		}
	}), found
}

// TestSwitchMayNot: with the credentials of switch 3 nobody reads, purges, deletes or
// publishes under another number, not even with the acknowledgement of a record as a letter
// to somebody else.
func TestSwitchMayNot(t *testing.T) {
	t.Parallel()
	config := testConfig(t, t.TempDir())
	config.NATS.Clients = []collect.Client{
		{Name: "s3", PasswordFile: secretFile(t, "three"), Role: collect.RoleSwitch, Switch: 3},
		{Name: "s4", PasswordFile: secretFile(t, "four"), Role: collect.RoleSwitch, Switch: 4},
		{Name: "second", PasswordFile: secretFile(t, "two"), Role: collect.RoleCollector},
	}
	s := start(t, config)
	defer s.Close()
	all := &kept{}
	c, stop := collecting(t, s, collect.DefaultPartitions(), all)
	defer stop()
	<-c.Ready()
	four := connect(t, s, nats.UserInfo("s4", "four"), nats.CustomInboxPrefix(jetstream.Acks(4)))
	send(t, four, epochs(record.LDS, 4, 20), make([]byte, 100))
	eventually(t, "switch 4's records are there", func() bool { return all.len() == 20 })

	watch, refused := violations()
	three := connect(t, s, nats.UserInfo("s3", "three"), nats.CustomInboxPrefix(jetstream.Acks(3)), watch)
	expect := func(what string, do func() error) {
		t.Helper()
		if err := do(); err != nil {
			t.Fatal(err)
		}
		if err := three.Flush(); err != nil {
			t.Fatal(err)
		}
		select {
		case err := <-refused:
			if !strings.Contains(strings.ToLower(err.Error()), "permissions violation") {
				t.Errorf("%s: %v", what, err)
			}
		case <-time.After(10 * time.Second):
			t.Errorf("%s: not refused", what)
		}
	}
	publish := func(subject string) func() error {
		return func() error { return three.Publish(subject, nil) }
	}
	subscribe := func(subject string) func() error {
		return func() error { _, err := three.SubscribeSync(subject); return err }
	}
	forged := epochs(record.LDS, 4, 21)[20]
	expect("publish as switch 4", publish(jetstream.Subject(&forged)))
	for _, call := range []string{
		"STREAM.PURGE.WEIR", "STREAM.DELETE.WEIR", "STREAM.UPDATE.WEIR", "STREAM.MSG.GET.WEIR", "STREAM.MSG.DELETE.WEIR", "STREAM.INFO.WEIR",
		"DIRECT.GET.WEIR", "CONSUMER.CREATE.WEIR.x", "CONSUMER.DURABLE.CREATE.WEIR.x", "CONSUMER.LIST.WEIR", "STREAM.CREATE.OTHER", "STREAM.SNAPSHOT.WEIR", "ACCOUNT.PURGE.x",
	} {
		expect(call, publish("$JS.API."+call))
	}
	expect("the system", publish("$SYS.REQ.SERVER.PING"))
	for _, subject := range []string{"weir.records.>", ">", "_INBOX.>", "weir.acks.*.>", "weir.acks.4.>", "weir.inbox.>", "$JS.>", "$SYS.>", "*"} {
		expect("subscribe to "+subject, subscribe(subject))
	}

	// Its own records go, and the acknowledgement may name any reader: the server sends it
	// there in its own name. None of the calls may do harm with such a text.
	own := epochs(record.LDS, 3, 60)
	for i, call := range []string{
		"STREAM.PURGE.WEIR", "STREAM.DELETE.WEIR", "STREAM.UPDATE.WEIR", "STREAM.MSG.DELETE.WEIR", "STREAM.CREATE.WEIR", "STREAM.LEADER.STEPDOWN.WEIR",
		"STREAM.RESTORE.WEIR", "STREAM.PEER.REMOVE.WEIR", "META.LEADER.STEPDOWN", "SERVER.REMOVE", "ACCOUNT.PURGE.$G", "CONSUMER.CREATE.WEIR.x", "STREAM.SNAPSHOT.WEIR",
	} {
		m := &nats.Msg{Subject: jetstream.Subject(&own[i]), Reply: "$JS.API." + call, Data: encoded(t, own[i], nil), Header: nats.Header{
			"Nats-Msg-Id": {"x" + call},
		}}
		if err := three.PublishMsg(m); err != nil {
			t.Fatal(err)
		}
	}
	rollup := &nats.Msg{Subject: jetstream.Subject(&own[30]), Reply: jetstream.Acks(3) + ".x", Data: encoded(t, own[30], nil), Header: nats.Header{"Nats-Rollup": {"all"}}}
	acks, err := three.SubscribeSync(jetstream.Acks(3) + ".>")
	if err != nil {
		t.Fatal(err)
	}
	if err := three.PublishMsg(rollup); err != nil {
		t.Fatal(err)
	}
	m, err := acks.NextMsg(10 * time.Second)
	var answer struct{ Error *struct{ Description string } }
	if err != nil || json.Unmarshal(m.Data, &answer) != nil || answer.Error == nil {
		t.Errorf("a rollup: %v, %s", err, m.Data)
	}
	send(t, three, own[40:], nil)

	again := &kept{}
	second, stopSecond := collecting(t, s, collect.DefaultPartitions(), again)
	defer stopSecond()
	<-second.Ready()
	if got := second.Status(); got.Messages != 20+13+20 || got.LastSequence != got.Messages || got.FirstSequence != 1 {
		t.Errorf("messages were removed: %+v", got)
	}
	four20 := 0
	for id := range again.seen {
		if strings.HasPrefix(id, "4 ") {
			four20++
		}
	}
	if four20 != 20 {
		t.Errorf("%d of 20 records of switch 4 are left", four20)
	}
}

// TestStrangers: who is not named, or has a wrong password, does not come in; a second collector
// may read, but not delete.
func TestStrangers(t *testing.T) {
	t.Parallel()
	config := testConfig(t, t.TempDir())
	config.NATS.Clients = []collect.Client{
		{Name: "s3", PasswordFile: secretFile(t, "three"), Role: collect.RoleSwitch, Switch: 3},
		{Name: "second", PasswordFile: secretFile(t, "two"), Role: collect.RoleCollector},
	}
	s := start(t, config)
	defer s.Close()
	for _, who := range []nats.Option{
		nats.Name("nobody"), nats.UserInfo("s3", "four"), nats.UserInfo("s3", ""), nats.UserInfo("", "three"), nats.UserInfo(ownName, ""), nats.UserInfo(ownName, "three"), nats.Token("three"),
	} {
		if nc, err := nats.Connect(s.URL(), who); err == nil {
			nc.Close()
			t.Error("a stranger comes in")
		}
	}
	c, stop := collecting(t, s, collect.DefaultPartitions(), &kept{})
	<-c.Ready()
	stop()
	nc := connect(t, s, nats.UserInfo("second", "two"), nats.CustomInboxPrefix(jetstream.Inbox("second")))
	for _, call := range []string{"STREAM.PURGE.WEIR", "STREAM.DELETE.WEIR", "STREAM.MSG.DELETE.WEIR"} {
		if _, err := nc.Request("$JS.API."+call, nil, time.Second/4); err == nil {
			t.Errorf("a second collector may call %s", call)
		}
	}
}

// TestAnybody: without names, who comes from this machine may publish, and cannot read or
// delete what is there.
func TestAnybody(t *testing.T) {
	t.Parallel()
	s := start(t, testConfig(t, t.TempDir()))
	defer s.Close()
	all := &kept{}
	c, stop := collecting(t, s, collect.DefaultPartitions(), all)
	defer stop()
	<-c.Ready()
	nc := connect(t, s)
	send(t, nc, epochs(record.LDS, 7, 5), nil)
	eventually(t, "records arrive", func() bool { return all.len() == 5 })
	for _, call := range []string{"STREAM.PURGE.WEIR", "STREAM.INFO.WEIR", "STREAM.DELETE.WEIR", "DIRECT.GET.WEIR"} {
		if m, err := nc.Request("$JS.API."+call, nil, time.Second/4); err == nil {
			t.Errorf("%s: %s", call, m.Data)
		}
	}
	sub, err := nc.SubscribeSync("weir.inbox.>")
	if err == nil {
		if err = nc.Flush(); err == nil {
			_, err = sub.NextMsg(time.Second / 4)
		}
	}
	if err == nil {
		t.Error("anybody reads what is sent to collectors")
	}
}
