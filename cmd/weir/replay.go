package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/weirswitch/weir/config"
	"github.com/weirswitch/weir/dataplane/pcapfile"
	"github.com/weirswitch/weir/dataplane/port"
	"github.com/weirswitch/weir/dataplane/worker"
	"github.com/weirswitch/weir/internal/progress"
	"github.com/weirswitch/weir/pipeline"
	"github.com/weirswitch/weir/pipeline/packet"
	"github.com/weirswitch/weir/stages"
	"github.com/weirswitch/weir/stages/patch"
	"github.com/weirswitch/weir/telemetry/export"
	"github.com/weirswitch/weir/telemetry/hash"
)

// replayOptions are the flags of weir replay.
type replayOptions struct {
	config  string
	graph   string
	in      []string // [PORT=]FILE
	out     []string // [PORT=]FILE
	records string   // folder
	json    bool
	trace   int
	chain   int
}

func newReplayCommand() *cobra.Command {
	var o replayOptions
	cmd := &cobra.Command{
		Use:   "replay [-c FILE | --graph STAGES] --in [PORT=]PCAP... [--out [PORT=]PCAP...]",
		Short: "Run a switch's pipeline over a capture, without root",
		Long: `Replay runs a capture through the pipeline of a switch: the same workers and
stages, on capture files instead of interfaces. It needs no privilege.

Without -c the switch has two ports, p0 and p1; patch joins them, l2 learns and
floods between them. The capture arrives on the first port; --in PORT=FILE,
given several times, feeds several ports in the order of capture times. "-" is
the standard input or output.

--out FILE gets all packets that leave, in order; --out PORT=FILE those that
leave by one port. Captures are pcap or pcapng, plain or gzipped, read by what
is in them and written by their names: .pcapng, .gz. A packet that the pipeline
does not change keeps its bytes, its lengths and its time.

Exit status: 0 if the counters add up; 1 if they do not, or writing failed;
2 for bad usage, and for a capture that is not Ethernet, cut off or corrupt.
What was readable of it is processed and reported all the same.`,
		Example: `  weir replay --in trace.pcap.gz --out out.pcap
  weir replay --graph parse,l2 --in p0=left.pcap --in p1=right.pcap --json
  weir replay -c switch.toml --in trace.pcap --trace 3`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return replay(cmd.Context(), o, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	f := cmd.Flags()
	f.StringVarP(&o.config, "config", "c", "", "take ports and stages from this `FILE` of a switch")
	f.StringVar(&o.graph, "graph", "parse,patch", "the `STAGES` of the pipeline, in order")
	f.StringArrayVar(&o.in, "in", nil, "receive the capture, on the first port or the named one (`[PORT=]PCAP`)")
	f.StringArrayVar(&o.out, "out", nil, "write what leaves, by any port or the named one (`[PORT=]PCAP`)")
	f.StringVar(&o.records, "records", "", "write the records of what the stages measured into this `FOLDER`")
	f.BoolVar(&o.json, "json", false, "report as one JSON object")
	f.IntVar(&o.chain, "chain", 0, "run `N` switches in a row, each with the stages, with hosts at both ends; pint's edges are set, and records are those of s1 to sN")
	f.IntVar(&o.trace, "trace", 0, "print the path of the first `N` packets through the stages")
	cmd.MarkFlagsMutuallyExclusive("config", "graph")
	return cmd
}

// replayPlan is what the flags and the configuration ask for, found good.
type replayPlan struct {
	name  string
	id    uint32
	hash  hash.Family
	ports []string
	chain []pipeline.Named
	// telemetry is where records go.
	telemetry export.Config
	// graph and configs are what chain was made of; chained replaces it
	// with --chain.
	graph   []string
	configs map[string]any
	chained *rowModule
	in      map[string]string // by port
	out     map[string]string // by port; under "" for all others
}

// replayFrame holds the longest record that captures have, 256 KiB, and the
// headroom. Memory that no packet touches costs nothing.
const replayFrame = 512 << 10

// replay runs the command. Its error carries the exit status.
func replay(ctx context.Context, o replayOptions, stdout, stderr io.Writer) error {
	p, err := planReplay(o)
	if err != nil {
		return usageError(err)
	}
	pool, err := packet.NewPool(packet.PoolConfig{
		// A batch, and a copy of each packet for each port that it is flooded to.
		Frames:    packet.BatchSize * (min(len(p.ports), 64) + 2),
		FrameSize: replayFrame,
	})
	if err != nil {
		return err
	}
	defer pool.Close()
	if o.chain > 0 {
		if err := p.row(o.chain, pool); err != nil {
			return usageError(err)
		}
	}
	files, err := openReplay(p)
	if err != nil {
		return usageError(err)
	}
	records, err := p.openRecords()
	if err != nil {
		return usageError(errors.Join(err, files.close()))
	}
	workers := worker.DefaultConfig()
	workers.Pin, workers.Poll = false, worker.PollBusy
	s, err := worker.New(workers, worker.Parts{
		Name: p.name, ID: p.id, Pool: pool, Ports: files.asPorts(), Chain: p.chain, ArrivalTime: true,
		OnTick: records.poll,
	})
	if err != nil {
		return errors.Join(err, records.finish())
	}
	var tracer *pipeline.Tracer
	if o.trace > 0 {
		tracer = pipeline.NewTracer(o.trace, nil)
		s.SetTracer(tracer)
	}
	stop := progress.Bytes(stderr, "replay", files.size(), files.read)
	start := time.Now()
	runErr := s.Run(ctx, nil)
	runErr = errors.Join(runErr, records.finish())
	seconds := time.Since(start).Seconds()
	stop()
	r := newReplayReport(s.Report(), p, seconds)
	r.addTraces(tracer, p)
	err = r.judge(errors.Join(runErr, r.addDecoded(p, records)), files.readError(), ctx.Err())
	if p.toStdout() {
		stdout = stderr // a report does not belong in a capture
	}
	return errors.Join(err, r.print(stdout, o.json))
}

// planReplay checks all that can be checked without touching a capture.
func planReplay(o replayOptions) (*replayPlan, error) {
	if len(o.in) == 0 {
		return nil, errors.New("no capture is named: add --in FILE")
	}
	if o.trace < 0 {
		return nil, fmt.Errorf("--trace %d: choose 0 or more packets", o.trace)
	}
	if o.chain < 0 || o.chain > maxRow {
		return nil, fmt.Errorf("--chain %d: choose 1 to %d switches", o.chain, maxRow)
	}
	p := &replayPlan{name: "replay", id: 1, ports: []string{"p0", "p1"}, telemetry: export.DefaultConfig()}
	p.telemetry.LocalBytes = replayBytes
	graph := strings.FieldsFunc(o.graph, func(r rune) bool { return r == ',' || r == ' ' })
	configs := map[string]any{"patch": &patch.Config{Pairs: [][2]string{{"p0", "p1"}}}}
	if o.config != "" {
		c, err := config.Load(o.config)
		if err != nil {
			return nil, err
		}
		p.name, p.id, p.hash, p.ports = c.Switch.Name, c.Switch.ID, c.Switch.Hash, nil
		for i := range c.Ports {
			p.ports = append(p.ports, c.Ports[i].Name)
		}
		graph, configs, p.telemetry = c.Switch.Graph, c.Stages, c.Telemetry
	}
	// Not the file's own spool, which a running switch may be writing.
	p.telemetry.Spool = o.records
	env := pipeline.Env{Name: p.name, ID: p.id, Workers: 1, Hash: p.hash}
	for _, name := range p.ports {
		env.Ports = append(env.Ports, pipeline.Port{Name: name, MaxFrame: port.PcapRoom(replayFrame)})
	}
	p.graph, p.configs = graph, configs
	var err error
	if p.chain, err = stages.Build(graph, configs, env); err != nil {
		return nil, err
	}
	// One thread does everything here, so learning can be exact: the same
	// capture gives the same output.
	stages.Inline(p.chain)
	if p.in, err = p.assign("--in", o.in, p.ports[0]); err != nil {
		return nil, err
	}
	p.out, err = p.assign("--out", o.out, "")
	return p, err
}

// assign reads [PORT=]FILE arguments. The text before the first '=' counts
// as a port only if it is one: file names may have a '=' too.
func (p *replayPlan) assign(flag string, args []string, unnamed string) (map[string]string, error) {
	files := map[string]string{}
	for _, arg := range args {
		name, path := unnamed, arg
		for _, port := range p.ports {
			if rest, ok := strings.CutPrefix(arg, port+"="); ok {
				name, path = port, rest
			}
		}
		if path == "" {
			return nil, fmt.Errorf("%s %q names no file: write %s [PORT=]FILE", flag, arg, flag)
		}
		if before, ok := files[name]; ok {
			return nil, fmt.Errorf("%s %s: %s has that port already: name another port, as in %s %s=FILE",
				flag, arg, before, flag, p.ports[len(p.ports)-1])
		}
		files[name] = path
	}
	return files, nil
}

// toStdout reports whether a capture goes to the standard output.
func (p *replayPlan) toStdout() bool {
	for _, path := range p.out {
		if path == "-" {
			return true
		}
	}
	return false
}

// replayFiles are the open captures, and the ports made of them.
type replayFiles struct {
	ins   []*pcapfile.In
	outs  []*pcapfile.Out
	ports []*port.Pcap
}

// openReplay opens the captures: first all that are read, so that nothing is
// written if one of them is refused.
func openReplay(p *replayPlan) (*replayFiles, error) {
	f := &replayFiles{}
	ports := make([]port.PcapConfig, len(p.ports))
	for i, name := range p.ports {
		ports[i].Name = name
		path, ok := p.in[name]
		if !ok {
			continue
		}
		in, err := pcapfile.Open(path)
		if err != nil {
			return nil, errors.Join(hintPorts(err, path, p.ports), f.close())
		}
		f.ins = append(f.ins, in)
		if err := in.CheckEthernet(); err != nil {
			return nil, errors.Join(fmt.Errorf("%s: %w", path, err), f.close())
		}
		ports[i].In = in
	}
	if err := f.create(p, ports); err != nil {
		return nil, errors.Join(err, f.close())
	}
	var set port.PcapSet
	for i := range ports {
		f.ports = append(f.ports, set.Add(ports[i]))
	}
	return f, nil
}

// hintPorts helps a user who wrote --in eth7=FILE for a missing port.
func hintPorts(err error, path string, ports []string) error {
	if name, _, ok := strings.Cut(path, "="); ok {
		return fmt.Errorf("%w (if %q was to be a port: there are %s)", err, name, strings.Join(ports, ", "))
	}
	return err
}

// create creates the outputs, in the format of the first input.
func (f *replayFiles) create(p *replayPlan, ports []port.PcapConfig) error {
	byPath := map[string]*port.PcapOutput{}
	for i, name := range p.ports {
		key := name
		path, ok := p.out[key]
		if !ok {
			key = ""
			if path, ok = p.out[key]; !ok {
				continue
			}
		}
		if byPath[key] == nil {
			if err := f.free(path); err != nil {
				return err
			}
			out, err := pcapfile.Create(path, f.ins[0].Format(), p.writers(key)...)
			if err != nil {
				return err
			}
			f.outs = append(f.outs, out)
			byPath[key] = port.NewPcapOutput(out)
		}
		ports[i].Out = byPath[key]
	}
	return nil
}

// writers lists the ports that write to an output: one, or all without one of
// their own.
func (p *replayPlan) writers(key string) []string {
	if key != "" {
		return []string{key}
	}
	var names []string
	for _, name := range p.ports {
		if _, ok := p.out[name]; !ok {
			names = append(names, name)
		}
	}
	return names
}

// free refuses to write over a file that is in use here.
func (f *replayFiles) free(path string) error {
	for _, in := range f.ins {
		if in.Same(path) {
			return fmt.Errorf("--out %s would write over the capture that is read: choose another file", path)
		}
	}
	for _, out := range f.outs {
		if out.Same(path) {
			return fmt.Errorf("--out %s is named twice: choose a file for each port, or one for all without a port's name", path)
		}
	}
	return nil
}

// size is that of all captures that are read, in bytes, and read how much of it was.
func (f *replayFiles) size() (total int64) {
	for _, in := range f.ins {
		_, size := in.Progress()
		total += size
	}
	return total
}

func (f *replayFiles) read() (total int64) {
	for _, in := range f.ins {
		n, _ := in.Progress()
		total += n
	}
	return total
}

// close closes all files; for the time before the ports own them.
func (f *replayFiles) close() error {
	var errs []error
	for _, in := range f.ins {
		errs = append(errs, in.Close())
	}
	for _, out := range f.outs {
		errs = append(errs, out.Close())
	}
	return errors.Join(errs...)
}

func (f *replayFiles) asPorts() []port.Port {
	ports := make([]port.Port, len(f.ports))
	for i, p := range f.ports {
		ports[i] = p
	}
	return ports
}

// readError returns the first capture's fault, if one ended early.
func (f *replayFiles) readError() error {
	for _, p := range f.ports {
		if err := p.ReadError(); err != nil {
			return fmt.Errorf("read %s: %w", p.Info().Interface, err)
		}
	}
	return nil
}
