package live

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	nats_js "github.com/nats-io/nats.go/jetstream"

	"github.com/weirswitch/weir/bench"
	"github.com/weirswitch/weir/telemetry/jetstream"
	"github.com/weirswitch/weir/telemetry/view/api"
)

const servers, collectors = 3, 2

// run is a measurement at work.
type run struct {
	config     Config
	folder     string
	password   string // file
	listen     [servers]string
	cluster    [servers]string
	web        [collectors]string
	processes  []*process // all that were started
	servers    [servers]*process
	collectors [collectors]*process
	clients    [collectors]*api.Client
	publishers []*process
	counts     []counts
	asked      *asked
	measured   measured
}

// measured is what a run found beside answers and counts.
type measured struct {
	seconds      float64            // for which records were made
	cpu          map[string]float64 // seconds of processors meanwhile, by role; of those that were not killed
	memory       map[string]float64 // bytes, by role: the most of one process
	serverKilled string
	drained      float64 // seconds from the last packet to the last record in both collectors
	stream       streamed
	statuses     [collectors]*api.CollectorStatus
}

// Run measures. It leaves no file where the folder is its own.
func Run(ctx context.Context, c Config) (result *bench.Result, err error) {
	r := &run{config: c}
	if r.folder, err = os.MkdirTemp(c.Folder, "weir-bench-live-"); err != nil {
		return nil, err
	}
	defer func() {
		for _, p := range r.processes {
			select {
			case <-p.ended:
			default:
				p.kill()
			}
		}
		if err == nil { // else the logs are wanted
			err = os.RemoveAll(r.folder)
		} else {
			err = fmt.Errorf("%w (logs are in %s)", err, r.folder)
		}
	}()
	steps, done := 6, 0
	report := func(what string) { c.Progress.Report(done, steps, what); done++ }
	report("start servers and collectors")
	if err := within(ctx, startWait, r.setUp); err != nil {
		return nil, fmt.Errorf("start servers and collectors: %w", err)
	}
	report(fmt.Sprintf("connect %d switches", c.Switches))
	if err := within(ctx, startWait, r.startPublishers); err != nil {
		return nil, fmt.Errorf("start publishers: %w", err)
	}
	report("make records, and ask")
	if err := r.measure(ctx); err != nil {
		return nil, err
	}
	report("send what is left")
	if err := r.drain(ctx); err != nil {
		return nil, err
	}
	report("read the stream")
	if err := r.account(ctx); err != nil {
		return nil, err
	}
	report("done")
	return r.result(), nil
}

const startWait = 3 * time.Minute

// within calls f with a bound of its time.
func within(ctx context.Context, most time.Duration, f func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	return f(ctx)
}

// addresses are some of 127.0.0.1 that are free now.
func addresses(list ...*string) error {
	for _, a := range list {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		defer l.Close()
		*a = l.Addr().String()
	}
	return nil
}

// setUp starts the servers and, once these are ready, the collectors.
func (r *run) setUp(ctx context.Context) error {
	var free []*string
	for i := range servers {
		free = append(free, &r.listen[i], &r.cluster[i])
	}
	for i := range collectors {
		free = append(free, &r.web[i])
	}
	if err := addresses(free...); err != nil {
		return err
	}
	r.password = filepath.Join(r.folder, "password")
	if err := os.WriteFile(r.password, []byte("of this run\n"), 0o600); err != nil {
		return err
	}
	for i := range servers {
		if err := r.startServer(i); err != nil {
			return err
		}
	}
	if err := awaitReady(ctx, r.servers[:]...); err != nil {
		return err
	}
	for i := range collectors {
		text := fmt.Sprintf(`[collect]
name = %q
listen = %q
[nats]
servers = [%s]
user = %q
password_file = %q
replicas = %d
[partitions]
share = true
[store]
bytes = %d
[retention]
bytes = %d
`, readers[i], r.web[i], `"`+strings.Join(r.urls(), `", "`)+`"`, readers[i], r.password, replicas, r.config.StoreBytes, retention().Bytes)
		if err := os.WriteFile(r.collectFile(i), []byte(text), 0o600); err != nil {
			return err
		}
		var err error
		if r.clients[i], err = api.NewClient("http://"+r.web[i], api.ClientTLS{}); err != nil {
			return err
		}
		if err := r.startCollector(i); err != nil {
			return err
		}
	}
	for i := range collectors {
		if err := r.awaitCollector(ctx, i); err != nil {
			return err
		}
	}
	return nil
}

func (r *run) collectFile(i int) string { return filepath.Join(r.folder, readers[i]+".toml") }

func (r *run) urls() (list []string) {
	for _, a := range r.listen {
		list = append(list, "nats://"+a)
	}
	return list
}

func (r *run) startServer(i int) (err error) {
	s := Server{Name: fmt.Sprint("n", i+1), Folder: r.folder, Listen: r.listen[i], Cluster: r.cluster[i], Routes: r.cluster[:], Password: r.password, Switches: r.config.Switches}
	r.servers[i], err = r.part(s.Name, Part{Server: &s})
	return err
}

func (r *run) startCollector(i int) (err error) {
	r.collectors[i], err = r.start(readers[i], "collect", "-c", r.collectFile(i))
	return err
}

// awaitCollector waits until a collector has read what there is.
func (r *run) awaitCollector(ctx context.Context, i int) error {
	return await(ctx, func() bool {
		select {
		case <-r.collectors[i].ended:
			return true // the next question says so
		default:
		}
		s, err := r.clients[i].Collector(ctx, &api.CollectorRequest{})
		return err == nil && s.Stream.CaughtUp
	})
}

// startPublishers starts them, and waits until all switches are connected.
func (r *run) startPublishers(ctx context.Context) error {
	rows, first := r.config.Switches/rowSwitches, 0
	for i := range r.config.Publishers {
		n := rows / r.config.Publishers
		if i < rows%r.config.Publishers {
			n++
		}
		name := fmt.Sprint("publisher", i+1)
		p, err := r.part(name, Part{Publisher: &Publisher{
			Config: r.config, First: first, Rows: n, Servers: r.urls(), Password: r.password, Spool: filepath.Join(r.folder, "spool"),
			Written: r.written(i), Report: r.reportFile(i),
		}})
		if err != nil {
			return err
		}
		r.publishers = append(r.publishers, p)
		first += n
	}
	return awaitReady(ctx, r.publishers...)
}

func (r *run) written(i int) string { return filepath.Join(r.folder, fmt.Sprintf("written%d", i+1)) }
func (r *run) reportFile(i int) string {
	return filepath.Join(r.folder, fmt.Sprintf("report%d.json", i+1))
}

// line sends a line to all publishers.
func (r *run) line(text string) error {
	for _, p := range r.publishers {
		if _, err := fmt.Fprintln(p.in, text); err != nil {
			return p.fault()
		}
	}
	return nil
}

// dial connects to the servers as the accounting.
func (r *run) dial() (*nats.Conn, nats_js.JetStream, error) {
	o := jetstream.Options{Name: readers[2], Inbox: jetstream.Inbox(readers[2]), Servers: r.urls(), User: readers[2], PasswordFile: r.password}
	nc, err := o.Dial()
	if err != nil {
		return nil, nil, err
	}
	js, err := nats_js.New(nc)
	if err != nil {
		nc.Close()
	}
	return nc, js, err
}

// leader is the number of the server that leads the stream.
func (r *run) leader(ctx context.Context) (int, error) {
	nc, js, err := r.dial()
	if err != nil {
		return 0, err
	}
	defer nc.Close()
	var name string
	ctx, cancel := context.WithTimeout(ctx, leaderWait)
	defer cancel()
	err = await(ctx, func() bool {
		s, err := js.Stream(ctx, jetstream.Stream)
		if err != nil || s.CachedInfo().Cluster == nil {
			return false
		}
		name = s.CachedInfo().Cluster.Leader
		return name != ""
	})
	if err != nil {
		return 0, fmt.Errorf("the stream has no leader: %w", err)
	}
	n := 0
	if _, err := fmt.Sscanf(name, "n%d", &n); err != nil || n < 1 || n > servers {
		return 0, fmt.Errorf("%q leads the stream, which is no server of this run", name)
	}
	return n - 1, nil
}

const leaderWait = time.Minute

// measure has records made and asks meanwhile; a quarter of the time in the stream's leader is killed, and after a half a collector. Each is back an eighth later.
func (r *run) measure(ctx context.Context) error {
	if err := r.line(startLine); err != nil {
		return err
	}
	began := time.Now()
	before := r.usage()
	asking, stop := context.WithCancel(ctx)
	defer stop()
	r.asked = newAsked(r, began)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		r.asked.run(asking)
	}()
	at := func(eighths int) error {
		select {
		case <-time.After(time.Until(began.Add(r.config.Length * time.Duration(eighths) / 8))):
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	lead, down := 0, collectors-1
	for _, s := range []struct {
		at int
		do func() error
	}{
		{2, func() (err error) {
			if lead, err = r.leader(ctx); err != nil {
				return err
			}
			r.measured.serverKilled = r.servers[lead].name
			r.asked.enter(serverDown)
			r.servers[lead].kill()
			return nil
		}},
		{3, func() error { return r.startServer(lead) }},
		{4, func() error {
			r.asked.enter(collectorDown)
			r.collectors[down].kill()
			return nil
		}},
		{5, func() error { return r.startCollector(down) }},
		{6, func() error { r.asked.enter(again); return nil }},
		{8, func() error { return nil }},
	} {
		if err := at(s.at); err != nil {
			return err
		}
		if err := s.do(); err != nil {
			return err
		}
	}
	r.measured.seconds = time.Since(began).Seconds()
	r.measured.cpu = map[string]float64{}
	after := r.usage()
	for _, role := range []struct {
		name string
		all  []*process
	}{{"publishers", r.publishers}, {"servers", r.servers[:]}, {"collector", r.collectors[:1]}} {
		n := 0.
		for _, p := range role.all {
			if _, ok := before[p]; ok && after[p] > 0 { // the others were started meanwhile
				r.measured.cpu[role.name] += after[p] - before[p]
				n++
			}
		}
		if role.name == "servers" && n > 0 {
			r.measured.cpu[role.name] /= n
		}
	}
	stop()
	<-ended
	return nil
}

// usage is what all processes have used of processors, in seconds.
func (r *run) usage() map[*process]float64 {
	all := map[*process]float64{}
	for _, list := range [][]*process{r.publishers, r.servers[:], r.collectors[:]} {
		for _, p := range list {
			if d, err := p.cpu(); err == nil {
				all[p] = d.Seconds()
			}
		}
	}
	return all
}

// drain ends the publishers once they have sent what is left, and waits until both collectors have read it.
func (r *run) drain(ctx context.Context) error {
	began := time.Now()
	r.measured.memory = map[string]float64{}
	for role, list := range map[string][]*process{"publisher": r.publishers, "server": r.servers[:], "collector": r.collectors[:]} {
		for _, p := range list {
			r.measured.memory[role] = max(r.measured.memory[role], p.memory())
		}
	}
	if err := r.line(stopLine); err != nil {
		return err
	}
	for i, p := range r.publishers {
		select {
		case <-p.ended:
		case <-ctx.Done():
			return ctx.Err()
		}
		if p.err != nil {
			return p.fault()
		}
		text, err := os.ReadFile(r.reportFile(i))
		if err != nil {
			return err
		}
		var c counts
		if err := json.Unmarshal(text, &c); err != nil {
			return err
		}
		r.counts = append(r.counts, c)
	}
	for i := range collectors {
		if err := r.awaitRead(ctx, i); err != nil {
			return err
		}
	}
	r.measured.drained = time.Since(began).Seconds()
	return nil
}

const readWait = 10 * time.Minute

// awaitRead waits until a collector has applied all of the stream, and does not change any more.
func (r *run) awaitRead(ctx context.Context, i int) error {
	ctx, cancel := context.WithTimeout(ctx, readWait)
	defer cancel()
	sent := uint64(0)
	for _, c := range r.counts {
		for _, k := range c.Kinds {
			sent += k.Sent
		}
	}
	err := await(ctx, func() bool {
		s, err := r.clients[i].Collector(ctx, &api.CollectorRequest{})
		if err != nil || !s.Stream.CaughtUp || s.Stream.Pending != 0 || s.Stream.Messages < sent {
			return false
		}
		r.measured.statuses[i] = s
		return true
	})
	if err != nil {
		return errors.Join(fmt.Errorf("collector %s reads the stream: %w", readers[i], err), ctx.Err())
	}
	return nil
}
