package bmv2

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/apache/thrift/lib/go/thrift"
	"golang.org/x/sys/unix"

	"github.com/weirswitch/weir/dataplane/lab/process"
)

// Config says what to run, and where.
type Config struct {
	// Binary is simple_switch, and Program the compiled program's file.
	Binary, Program string
	// Interfaces are the names of the ports' interfaces by port number, in Namespace, from
	// which packets come as soon as the switch runs; [Switch.AddPort] adds others. Nil: packets come
	// by Send and go by Receive.
	Interfaces map[int]string
	// Namespace is where the switch runs: its Thrift server listens on all addresses
	// there. Nil: the namespace of this process.
	Namespace Namespace
	// ThriftPort is the TCP port of that server; 0: 9090, BMv2's own.
	ThriftPort int
	// Log is a file for the switch's log of what it does to each packet; empty: none.
	Log string
}

// Namespace is a network namespace, as dataplane/lab/netns has it.
type Namespace interface {
	Start(*exec.Cmd) error
	Dial(ctx context.Context, network, address string) (net.Conn, error)
}

// here is the namespace of this process.
type here struct{}

func (here) Start(c *exec.Cmd) error { return c.Start() }

func (here) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	return new(net.Dialer).DialContext(ctx, network, address)
}

// Switch is a running simple_switch. Its methods may be called from several goroutines,
// but Load and the writing of registers from one at a time.
type Switch struct {
	program *Program
	dir     string // of its sockets
	cmd     *exec.Cmd
	id      process.ID
	ended   chan struct{} // closed when the process has ended
	output  *os.File

	runtime *runtime
	packets *messages // nil with interfaces
	notices *messages
	sent    chan Packet
	sentErr error // why sent was closed
	learned chan []byte
	expired chan []byte
}

const (
	startWait = 30 * time.Second
	stopWait  = 5 * time.Second
	// depth is how many packets wait at an output port before it drops; BMv2's own is 64.
	depth = 4096
	// waiting is how many packets and buffers wait here for a reader.
	waiting = 1 << 14
)

// Start starts a switch and waits until it can be configured. End it by Stop. What a
// process that crashed has left running is ended first.
func Start(ctx context.Context, c Config) (*Switch, error) {
	sweep()
	program, err := loadProgram(c.Program)
	if err != nil {
		return nil, err
	}
	s := &Switch{program: program, ended: make(chan struct{})}
	if s.dir, err = newDirectory(); err != nil {
		return nil, err
	}
	if c.Namespace == nil {
		c.Namespace = here{}
	}
	if c.ThriftPort == 0 {
		c.ThriftPort = 9090
	}
	if err := s.start(ctx, c); err != nil {
		return nil, fmt.Errorf("start simple_switch: %w", errors.Join(err, s.Stop()))
	}
	return s, nil
}

func (s *Switch) start(ctx context.Context, c Config) error {
	ctx, cancel := context.WithTimeout(ctx, startWait)
	defer cancel()
	var err error
	if s.output, err = os.Create(filepath.Join(s.dir, "output")); err != nil {
		return err
	}
	if err := vacant(ctx, c); err != nil {
		return err
	}
	s.cmd = exec.Command(c.Binary, s.arguments(c)...)
	s.cmd.Stdout, s.cmd.Stderr = s.output, s.output
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := c.Namespace.Start(s.cmd); err != nil {
		s.cmd = nil
		return err
	}
	s.id, err = process.Of(s.cmd.Process.Pid) // before Wait can reap the child
	go func() {
		_ = s.cmd.Wait()
		close(s.ended)
	}()
	if err := errors.Join(err, note(s.dir, s.id)); err != nil {
		return s.failed(err)
	}
	if err := s.connect(ctx, c); err != nil {
		return s.failed(err)
	}
	for _, list := range s.program.digests {
		if err := s.runtime.setSamples(int32(list), 1); err != nil {
			return err
		}
	}
	return s.deepen(ctx, c)
}

// deepen sets the depth of the queues. simple_switch opens its Thrift server before it adds its own service to it; until
// then calls of that are answered by another name, and the rest of such an answer stays in the connection.
func (s *Switch) deepen(ctx context.Context, c Config) error {
	for {
		err := s.runtime.setQueueDepths(depth)
		var refused thrift.TApplicationException
		if !errors.As(err, &refused) || refused.TypeId() != thrift.WRONG_METHOD_NAME {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("its Thrift server lacks the switch's service: %w", err)
		case <-time.After(10 * time.Millisecond):
		}
		conn, dialErr := c.Namespace.Dial(ctx, "tcp", c.address())
		if dialErr != nil {
			return dialErr
		}
		if err := s.runtime.close(); err != nil {
			return errors.Join(err, conn.Close())
		}
		s.runtime = newRuntime(conn)
	}
}

func (s *Switch) arguments(c Config) []string {
	args := []string{
		"--thrift-port", strconv.Itoa(c.ThriftPort),
		"--notifications-addr", s.noticesAddress(),
	}
	if c.Log != "" {
		args = append(args, "--log-file", strings.TrimSuffix(c.Log, ".txt"), "--log-flush")
	}
	for _, port := range slices.Sorted(maps.Keys(c.Interfaces)) {
		args = append(args, "--interface", fmt.Sprintf("%d@%s", port, c.Interfaces[port]))
	}
	if c.Interfaces == nil {
		args = append(args, "--packet-in", "ipc://"+s.socket("packets"))
	}
	return append(args, c.Program)
}

func (s *Switch) socket(name string) string { return filepath.Join(s.dir, name) }

// noticesAddress is what no other switch has, and a switch says of itself.
func (s *Switch) noticesAddress() string { return "ipc://" + s.socket("notices") }

// address is that of the Thrift server, in its namespace.
func (c *Config) address() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(c.ThriftPort)) }

// errTaken says that the Thrift port is somebody else's.
func (c *Config) errTaken() error {
	return fmt.Errorf("TCP port %d is taken: choose another one with --thrift-port", c.ThriftPort)
}

// vacant reports whether no server answers at the Thrift port yet: a switch that runs there would get what is meant
// for the one to be started.
func vacant(ctx context.Context, c Config) error {
	conn, err := c.Namespace.Dial(ctx, "tcp", c.address())
	if err != nil {
		return nil
	}
	_ = conn.Close()
	return c.errTaken()
}

// connect opens all connections. The switch opens its sockets first and the Thrift server behind them.
func (s *Switch) connect(ctx context.Context, c Config) error {
	for {
		conn, err := c.Namespace.Dial(ctx, "tcp", c.address())
		if err == nil {
			s.runtime = newRuntime(conn)
			break
		}
		select {
		case <-s.ended:
			return errors.New("it has ended")
		case <-ctx.Done():
			return fmt.Errorf("it opens no Thrift server: %w", err)
		case <-time.After(10 * time.Millisecond):
		}
	}
	// Two that are started at once both find the port vacant: then one answers for the other.
	notices, err := s.runtime.noticesAddress()
	if err != nil {
		return err
	}
	if notices != s.noticesAddress() {
		return c.errTaken()
	}
	if s.notices, err = dialMessages(s.socket("notices"), protocolSub, protocolPub, startWait); err != nil {
		return err
	}
	s.learned, s.expired = make(chan []byte, waiting), make(chan []byte, waiting)
	go s.readNotifications()
	if c.Interfaces != nil {
		return nil
	}
	if s.packets, err = dialMessages(s.socket("packets"), protocolPair, protocolPair, startWait); err != nil {
		return err
	}
	s.sent = make(chan Packet, waiting)
	go s.readPackets()
	return nil
}

// failed adds to an error what the switch said last.
func (s *Switch) failed(err error) error {
	text, readErr := os.ReadFile(s.socket("output"))
	if readErr != nil || len(text) == 0 {
		return err
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return fmt.Errorf("%w; it said: %s", err, strings.Join(lines[max(0, len(lines)-3):], " | "))
}

// ID names the switch's process.
func (s *Switch) ID() process.ID { return s.id }

// Ended is closed when the switch has ended, by itself or by Stop.
func (s *Switch) Ended() <-chan struct{} { return s.ended }

// Err says that the switch has ended, and what it said last. It is to be asked once Ended is closed.
func (s *Switch) Err() error { return s.failed(errors.New("simple_switch has ended")) }

// AddPort gives the switch a port by an interface of its namespace, as Config.Interfaces does.
func (s *Switch) AddPort(number int, name string) error {
	if err := s.runtime.addPort(int32(number), name); err != nil {
		return s.failed(fmt.Errorf("open the interface %s as port %d: %w", name, number, err))
	}
	return nil
}

// Program is what the switch runs.
func (s *Switch) Program() *Program { return s.program }

// Stop ends the switch and removes its files. A second Stop does nothing.
func (s *Switch) Stop() error {
	if s.dir == "" {
		return nil
	}
	var errs []error
	if s.runtime != nil {
		errs = append(errs, s.runtime.close())
	}
	for _, m := range []*messages{s.packets, s.notices} {
		if m != nil {
			errs = append(errs, m.Close())
		}
	}
	if s.cmd != nil {
		errs = append(errs, s.end())
	}
	if s.output != nil {
		errs = append(errs, s.output.Close())
	}
	errs = append(errs, os.RemoveAll(s.dir))
	s.dir = ""
	return errors.Join(errs...)
}

// end ends the process. simple_switch has no handler of signals, so it ends at once.
func (s *Switch) end() error {
	for _, signal := range []unix.Signal{unix.SIGTERM, unix.SIGKILL} {
		if err := s.id.Signal(signal); err != nil && !errors.Is(err, process.ErrGone) {
			return fmt.Errorf("end simple_switch: %w", err)
		}
		select {
		case <-s.ended:
			return nil
		case <-time.After(stopWait):
		}
	}
	return fmt.Errorf("end simple_switch: process %d stays at SIGKILL", s.id.PID)
}

// Registers reads all cells of a register. Values of more than 64 bits are cut.
func (s *Switch) Registers(name string) ([]uint64, error) {
	r, err := resolve("register", name, s.program.registers)
	if err != nil {
		return nil, err
	}
	return s.runtime.registers(r.Name)
}

// WriteRegister writes a cell of a register.
func (s *Switch) WriteRegister(name string, index int, value uint64) error {
	r, err := resolve("register", name, s.program.registers)
	if err != nil {
		return err
	}
	if index < 0 || index >= r.Size {
		return fmt.Errorf("register %s has no cell %d: it has %d", r.Name, index, r.Size)
	}
	if r.Bits < 64 {
		value &= 1<<r.Bits - 1
	}
	if err := s.runtime.writeRegister(r.Name, int32(index), value); err != nil {
		return fmt.Errorf("write register %s: %w", r.Name, err)
	}
	return nil
}

// Counter reads a cell of a counter.
func (s *Switch) Counter(name string, index int) (packets, bytes uint64, err error) {
	full := map[string]string{}
	for n := range s.program.counters {
		full[n] = n
	}
	n, err := resolve("counter", name, full)
	if err != nil {
		return 0, 0, err
	}
	return s.runtime.counter(n, int32(index))
}

// Started is when the switch's clock, which its packets' timestamps count from, was zero, by the
// clock that now reads. It is exact to half of a call's duration, which is returned too.
func (s *Switch) Started(now func() int64) (at int64, within time.Duration, err error) {
	best := time.Duration(1<<63 - 1)
	for range 20 {
		before := now()
		elapsed, err := s.runtime.elapsed()
		if err != nil {
			return 0, 0, err
		}
		after := now()
		if d := time.Duration(after-before) / 2; d < best {
			best, at = d, before+(after-before)/2-elapsed.Nanoseconds()
		}
	}
	return at, best, nil
}
