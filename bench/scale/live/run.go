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
	"golang.org/x/sys/unix"

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
	processes  []*process    // all that were started
	died       chan *process // one that should not have ended
	servers    [servers]*process
	collectors [collectors]*process
	clients    [collectors]*api.Client
	publishers []*process
	counts     []counts
	asked      *asked
	measured   measured
	step       int // that is at work, of steps
}

// measured is what a run found beside answers and counts.
type measured struct {
	seconds      float64            // for which records were made
	cpu          map[string]float64 // seconds of processors meanwhile, by role; of those that were not killed
	alone        ingest             // before questions began
	memory       map[string]float64 // bytes, by role: the most of one process
	serverKilled string
	back         float64 // seconds that the killed collector read until it had all
	drained      float64 // seconds from the last packet to the last record in both collectors
	stream       streamed
	statuses     [collectors]*api.CollectorStatus
}

// ingest is what the collector that is not killed took in.
type ingest struct {
	seconds, cpu float64
	kinds        map[string]uint64 // records
}

// What a measurement consists of.
var steps = []string{"start servers and collectors", "connect %d switches", "make records, and ask", "send what is left", "read the stream"}

// Run measures. It leaves no file, unless something failed: the logs are wanted then. A result comes with an error where records are not accounted for.
func Run(ctx context.Context, c Config) (result *bench.Result, err error) {
	r := &run{config: c, died: make(chan *process, 1)}
	unlock, err := r.makeFolder()
	if err != nil {
		return nil, err
	}
	defer unlock()
	defer func() {
		for _, p := range r.processes {
			p.kill()
		}
		if err == nil || ctx.Err() != nil {
			err = errors.Join(err, os.RemoveAll(r.folder))
		} else {
			err = fmt.Errorf("%w (logs are in %s until the next run)", err, r.folder)
		}
	}()
	for i, f := range []func(context.Context) error{
		func(ctx context.Context) error { return within(ctx, startWait, r.setUp) },
		func(ctx context.Context) error { return within(ctx, startWait, r.startPublishers) },
		r.measure,
		r.drain,
		func(ctx context.Context) error { return within(ctx, accountWait, r.account) },
	} {
		r.step = i
		r.say("")
		if err := f(ctx); err != nil {
			return nil, fmt.Errorf("%s: %w", r.stepName(), err)
		}
	}
	return r.result(), r.measured.fault()
}

func (r *run) stepName() string {
	if s := steps[r.step]; strings.Contains(s, "%d") {
		return fmt.Sprintf(s, r.config.Switches)
	}
	return steps[r.step]
}

// say reports what goes on within a step.
func (r *run) say(text string, args ...any) {
	name := r.stepName()
	if text != "" {
		name += ": " + fmt.Sprintf(text, args...)
	}
	r.config.Progress.Report(r.step, len(steps), name)
}

// The bounds of all that is waited for.
const (
	startWait   = 3 * time.Minute
	readWait    = 10 * time.Minute // by both collectors, until they have all
	accountWait = 10 * time.Minute
	leaderWait  = time.Minute
	lookEach    = 250 * time.Millisecond // a collector's status costs it something
)

const folderPrefix = "weir-bench-live-"

// makeFolder makes the folder of a run, locked, and removes those of runs that failed or were killed.
func (r *run) makeFolder() (unlock func(), err error) {
	parent := r.config.Folder
	if parent == "" {
		parent = os.TempDir()
	}
	if parent, err = filepath.Abs(parent); err != nil { // collectors refuse other files
		return nil, fmt.Errorf("%w: %w: name it by its whole path", ErrRoom, err)
	}
	old, err := filepath.Glob(filepath.Join(parent, folderPrefix+"*"))
	if err != nil {
		return nil, err
	}
	for _, f := range old {
		if lock, err := lockFolder(f); err == nil {
			err = os.RemoveAll(f)
			if err = errors.Join(err, lock.Close()); err != nil {
				return nil, err
			}
		}
	}
	if err := r.config.room(parent); err != nil {
		return nil, err
	}
	if r.folder, err = os.MkdirTemp(parent, folderPrefix); err != nil {
		return nil, fmt.Errorf("%w: %w: choose one that may be written", ErrRoom, err)
	}
	lock, err := lockFolder(r.folder)
	if err != nil {
		return nil, err
	}
	return func() { _ = lock.Close() }, nil // nothing was written to it
}

// lockFolder locks the folder of a run as long as the file is open.
func lockFolder(folder string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(folder, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

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
	if err := r.awaitReady(ctx, r.servers[:]...); err != nil {
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
	return r.await(ctx, func() bool {
		s, err := r.clients[i].Collector(ctx, &api.CollectorRequest{})
		if err == nil && !s.Stream.CaughtUp {
			r.say("%s has %d messages to read", readers[i], s.Stream.Pending)
		}
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
	return r.awaitReady(ctx, r.publishers...)
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
	err = r.await(ctx, func() bool {
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

// measure has records made, and asks meanwhile from an eighth of the time on. A quarter of the time in, the server that leads the stream is killed, and after a half a collector. Each is started
// again an eighth later; the rest of the time begins when the collector has read what the stream has.
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
	at := func(eighths int) error {
		end := began.Add(r.config.Length * time.Duration(eighths) / 8)
		return r.await(ctx, func() bool {
			r.say("%.0f of %.0f s", time.Since(began).Seconds(), r.config.Length.Seconds())
			return !time.Now().Before(end)
		})
	}
	if err := at(1); err != nil {
		return err
	}
	if err := r.ingested(ctx, before, began); err != nil {
		return err
	}
	go func() {
		defer close(ended)
		r.asked.run(asking)
	}()
	lead, down := 0, collectors-1
	for _, s := range []struct {
		at int // or later: what was before it has happened
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
		{3, func() error {
			if err := r.startServer(lead); err != nil {
				return err
			}
			return within(ctx, startWait, func(ctx context.Context) error { return r.awaitReady(ctx, r.servers[lead]) })
		}},
		{4, func() error {
			r.asked.enter(collectorDown)
			r.collectors[down].kill()
			return nil
		}},
		{5, func() error {
			if err := r.startCollector(down); err != nil {
				return err
			}
			since := time.Now()
			err := within(ctx, readWait, func(ctx context.Context) error { return r.awaitCollector(ctx, down) })
			if r.measured.back = time.Since(since).Seconds(); err != nil {
				return r.behind(down, err)
			}
			r.asked.enter(again)
			return nil
		}},
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

// ingested notes what the first collector has taken in since records are made.
func (r *run) ingested(ctx context.Context, before map[*process]float64, began time.Time) error {
	var s *api.CollectorStatus
	if err := r.await(ctx, func() (ok bool) {
		var err error
		s, err = r.clients[0].Collector(ctx, &api.CollectorRequest{})
		return err == nil
	}); err != nil {
		return err
	}
	a := &r.measured.alone
	a.seconds, a.cpu = time.Since(began).Seconds(), r.usage()[r.collectors[0]]-before[r.collectors[0]]
	a.kinds = map[string]uint64{}
	for _, k := range s.Kinds {
		a.kinds[k.Kind] = k.Records
	}
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
	for _, p := range r.publishers {
		p.expected.Store(true)
	}
	if err := r.line(stopLine); err != nil {
		return err
	}
	for i, p := range r.publishers {
		if err := within(ctx, drainWait+startWait, func(ctx context.Context) error {
			return r.await(ctx, func() bool {
				select {
				case <-p.ended:
					return true
				default:
					return false
				}
			})
		}); err != nil {
			return fmt.Errorf("%s ends: %w", p.name, err)
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
	book, err := r.ledger()
	if err != nil {
		return err
	}
	for i := range collectors {
		if err := r.awaitRead(ctx, i, book.alike); err != nil {
			return err
		}
	}
	r.measured.drained = time.Since(began).Seconds()
	return nil
}

// awaitRead waits until a collector has applied all of the stream, and does not change any more. So many records are equal to others, and not in the stream
// a second time.
func (r *run) awaitRead(ctx context.Context, i int, alike uint64) error {
	ctx, cancel := context.WithTimeout(ctx, readWait)
	defer cancel()
	sent := uint64(0)
	for _, c := range r.counts {
		for _, k := range c.Kinds {
			sent += k.Sent
		}
	}
	err := r.await(ctx, func() bool {
		s, err := r.clients[i].Collector(ctx, &api.CollectorRequest{})
		if err != nil {
			return false
		}
		r.say("%s has %d of %d messages to read", readers[i], s.Stream.Pending, s.Stream.Messages)
		r.measured.statuses[i] = s
		return s.Stream.CaughtUp && s.Stream.Pending == 0 && s.Stream.Messages >= sent-alike
	})
	if err != nil {
		return r.behind(i, err)
	}
	return nil
}

// behind is the error of a collector that did not read all in time.
func (r *run) behind(i int, err error) error {
	if !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return fmt.Errorf("collector %s has not read the stream after %v: this machine carries fewer records: choose fewer --switches, a smaller --budget or longer --epoch-bits", readers[i], readWait)
}

// await waits until something holds, and no longer than all processes run.
func (r *run) await(ctx context.Context, holds func() bool) error {
	tick := time.NewTicker(lookEach)
	defer tick.Stop()
	for !holds() {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case p := <-r.died:
			return p.fault()
		case <-tick.C:
		}
	}
	return nil
}
