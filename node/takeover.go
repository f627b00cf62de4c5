package node

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/weirswitch/weir/config"
	"github.com/weirswitch/weir/control"
	"github.com/weirswitch/weir/control/api"
	"github.com/weirswitch/weir/dataplane/hostif"
	"github.com/weirswitch/weir/dataplane/port"
	"github.com/weirswitch/weir/internal/handover"
	"github.com/weirswitch/weir/internal/socket"
	"github.com/weirswitch/weir/pipeline"
	"github.com/weirswitch/weir/pipeline/packet"
	"github.com/weirswitch/weir/stages/l3"
)

// A takeover, over the socket takeoverSocket of the process that runs the switch:
//
//	old process                              new process
//	forwards                          <──    hello: who it is
//	offer, its ports and stages       ──>    maps the memory and the rings, builds ports and stages
//	                                  <──    rest
//	its workers rest between batches
//	state of each queue, of stages
//	in shared memory, end             ──>    takes them
//	                                  <──    ready
//	go                                ──>    its workers forward
//	                                  <──    forwarding
//	ends its slices, closes its spool
//	and control                       ──>    left: opens the spool and control
//
// Until go, whatever fails, and the end of the connection, leave the old process as it was: its workers resume. The new one has touched nothing by then.
const (
	kindHello handover.Kind = iota + 1
	kindOffer
	kindPort
	kindStage
	kindRest
	kindQueue
	kindEnd
	kindReady
	kindGo
	kindForwarding
	kindLeft
	kindShared // a pipeline.Handed stage, behind the ports
	kindRested // and what it has beside its memory, behind the queues
	kindPeers  // of a port, as port.Peered says: in front of the states of queues
)

// The time that each side gives the other.
const (
	// prepareLimit is for all that the new process does while the old one forwards.
	prepareLimit = time.Minute
	// maxStates bounds what the states of all queues and stages have at rest, in bytes: 24 for each packet that waits, and some kilobytes of a stage.
	maxStates = 256 << 20
	// maxOffered bounds how many ports, and how many stages, an offer announces.
	maxOffered = 1 << 16
	// restLimit is for the time in which no packet is forwarded: then the old process goes on.
	restLimit = time.Second
	// leaveLimit is how long the new process waits for the spool and control.
	leaveLimit = 10 * time.Second
)

// takeoverSocket is where the switch with a control socket is taken over.
func takeoverSocket(control string) string { return strings.TrimSuffix(control, ".sock") + ".takeover" }

type hello struct {
	Version string `json:"version"` // of the program, for the log
	Process int    `json:"process"`
	Name    string `json:"name"`    // of the switch
	Service string `json:"service"` // Service.Name, or empty
}

type offer struct {
	Version   string `json:"version"`
	Process   int    `json:"process"`
	Config    string `json:"config"` // in force, as TOML
	Frames    int    `json:"frames"`
	FrameSize int    `json:"frame_size"`
	Ports     int    `json:"ports"`   // how many messages follow
	Shared    int    `json:"shared"`  // behind these
	Stages    int    `json:"stages"`  // and behind these
	Service   string `json:"service"` // Service.Name, which this process passes on, or empty
}

type queueState struct {
	Port  string `json:"port"`
	Queue int    `json:"queue"`
}

type stageState struct {
	Stage string   `json:"stage"`
	Names []string `json:"names"` // of the ports by number
}

type endState struct {
	Free   int            `json:"free"` // frames that no queue has
	Queues int            `json:"queues"`
	Peered int            `json:"peered"` // ports whose peers wait
	Hosts  []hostif.Given `json:"hosts"`  // what the router's host interfaces were given
}

// begins names the stages whose state is their configuration, another stage's (distribute's is bond's), or what they measure: that begins anew, after the old
// process has ended its slices.
var begins = []string{"parse", "distribute", "patch", "acl", "mirror", "policer", "guard", "vlan", "tag", "irb", "lldp", "sflow", "encap", "pint", "lds_ingress", "lds_egress", "oblivious", "disketch"}

// unpassable reports the stages that cannot pass on what they know.
func (n *Node) unpassable() error {
	var errs []error
	for _, s := range n.chain() {
		_, stateful := s.Module.(pipeline.Stateful)
		_, handed := s.Module.(pipeline.Handed)
		if !stateful && !handed && !slices.Contains(begins, s.Name) {
			errs = append(errs, fmt.Errorf("stage %s: no other process can go on with what it knows", s.Name))
		}
	}
	return errors.Join(errs...)
}

// listenTakeovers makes the socket.
func (n *Node) listenTakeovers() error {
	if n.options.NoControl || !n.config.Control.Takeover {
		return nil
	}
	var err error
	n.takeovers, err = control.Listen(takeoverSocket(n.config.Control.Socket), "")
	return err
}

// serveTakeovers lets processes take the switch over, one at a time, until ctx ends, or one has.
func (n *Node) serveTakeovers(ctx context.Context) {
	l := n.takeovers
	end := context.AfterFunc(ctx, func() { _ = l.Close() })
	defer end()
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		if n.letTake(ctx, c) {
			_ = l.Close()
			return
		}
	}
}

// letTake reports whether the other end has taken the switch over.
func (n *Node) letTake(ctx context.Context, c net.Conn) (left bool) {
	raw, ok := c.(*net.UnixConn)
	if !ok {
		_ = c.Close()
		return false
	}
	conn := handover.NewConn(raw)
	stop := context.AfterFunc(ctx, func() { _ = raw.SetDeadline(time.Now()) })
	err := n.give(conn, socket.PeerOf(c))
	stop()
	if err == nil {
		return true
	}
	n.log.Warn("takeover refused, the switch goes on", zap.Error(err))
	if !errors.As(err, new(handover.RefusedError)) {
		conn.Refuse(err)
	}
	_ = c.Close()
	n.takeoversFailed.Add(1)
	return false
}

// give is the old process's side up to forwarding.
func (n *Node) give(conn *handover.Conn, peer socket.Peer) error {
	if !peer.Privileged() {
		return fmt.Errorf("no permission: process %d is of user %d, and root and the switch's own user alone may take it over", peer.PID, peer.UID)
	}
	_ = conn.SetDeadline(time.Now().Add(prepareLimit))
	m, err := conn.Receive(kindHello)
	if err != nil {
		return err
	}
	defer m.Close()
	var h hello
	if err := m.Decode(&h); err != nil {
		return err
	}
	if h.Name != n.config.Switch.Name {
		return fmt.Errorf("this is switch %s, and not %s", n.config.Switch.Name, h.Name)
	}
	if err := n.options.Service.admits(h.Process, h.Service); err != nil {
		return err
	}
	n.log.Info("takeover begins", zap.Int("process", h.Process), zap.String("version", h.Version))
	// No change of the configuration from here on.
	n.changing.Lock()
	defer n.changing.Unlock()
	release, err := n.sw.Hold()
	if err != nil {
		return err
	}
	defer release()
	if err := n.sendOffer(conn); err != nil {
		return err
	}
	if m, err = conn.Receive(kindRest); err != nil {
		return err
	}
	m.Close()
	n.kernel.Hold() // the host interfaces are as they are until the switch is the other's, or this one goes on
	begun := time.Now()
	_ = conn.SetDeadline(begun.Add(restLimit))
	rest, err := n.sw.Rest(restLimit)
	if err != nil {
		n.kernel.Release()
		return err
	}
	if err := n.sendState(conn, rest); err != nil {
		rest.End()
		n.kernel.Release()
		return fmt.Errorf("no packet was forwarded for %v: %w", time.Since(begun).Round(time.Microsecond), err)
	}
	for _, s := range handedOf(n.chain()) {
		s.handed.Left()
	}
	_ = conn.SetDeadline(time.Now().Add(leaveLimit)) // the switch is the other's: there is no hurry
	if m, err = conn.Receive(kindForwarding); err != nil {
		// It had the queues.
		n.log.Error("the process that took the switch over did not say that it forwards: this one ends", zap.Error(err))
		n.leavingErr = fmt.Errorf("the process that took the switch over did not say that it forwards: %w", err)
	} else {
		m.Close()
		n.leavingErr = n.passOn(peer.PID)
	}
	n.log.Info("taken over", zap.Int("by process", h.Process), zap.Duration("blocked", time.Since(begun)))
	n.leaving = conn // before the workers end, for which Run waits
	rest.Leave()
	return nil
}

// sendOffer sends what the new process needs to prepare.
func (n *Node) sendOffer(conn *handover.Conn) error {
	if n.pool.File() == nil {
		return errors.New("the packet memory is this process's alone: control.takeover was not set when it started")
	}
	if err := n.unpassable(); err != nil {
		return err
	}
	ports, err := n.sw.Takeable()
	if err != nil {
		return err
	}
	var stateful []pipeline.Named
	for _, s := range n.chain() {
		if _, ok := s.Module.(pipeline.Stateful); ok {
			stateful = append(stateful, s)
		}
	}
	handed := handedOf(n.chain())
	if err := conn.Send(kindOffer, offer{
		Version: Version().Version, Process: os.Getpid(), Config: n.inForce.Load().text,
		Frames: n.pool.Frames(), FrameSize: n.pool.FrameSize(), Ports: len(ports), Shared: len(handed), Stages: len(stateful),
		Service: n.options.Service.name(),
	}, nil, n.pool.File()); err != nil {
		return err
	}
	for _, p := range ports {
		s, err := p.Share()
		if err != nil {
			return err
		}
		err = errors.Join(conn.Send(kindPort, s, nil, s.Files...), s.Close())
		if err != nil {
			return err
		}
	}
	for _, s := range handed {
		state, files, err := s.handed.Share()
		if err != nil {
			return fmt.Errorf("stage %s: %w", s.name, err)
		}
		if err := conn.Send(kindShared, stageState{Stage: s.name}, state, files...); err != nil {
			return err
		}
	}
	names := n.portNames()
	for _, s := range stateful {
		state, err := s.Module.(pipeline.Stateful).AppendState(nil, names)
		if err != nil {
			return fmt.Errorf("stage %s: %w", s.Name, err)
		}
		if err := conn.Send(kindStage, stageState{s.Name, names}, state); err != nil {
			return err
		}
	}
	return nil
}

// handedStage is a stage whose memory goes over.
type handedStage struct {
	name   string
	handed pipeline.Handed
}

func handedOf(chain []pipeline.Named) (all []handedStage) {
	for _, s := range chain {
		if h, ok := s.Module.(pipeline.Handed); ok {
			all = append(all, handedStage{s.Name, h})
		}
	}
	return all
}

// resting is a switch whose workers rest: worker.Rest.
type resting interface {
	Peered(f func(port.Peered) error) error
	Queues(f func(number, queue int, q port.Movable) error) error
	Free() int
}

// sendState sends what queues know while the workers rest, and returns once the new process may go on.
func (n *Node) sendState(conn *handover.Conn, rest resting) error {
	names := n.portNames()
	frames, queues, peered := 0, 0, 0
	if err := rest.Peered(func(p port.Peered) error {
		s, err := p.State()
		if err != nil {
			return err
		}
		peered++
		return errors.Join(conn.Send(kindPeers, s, nil, s.Files...), s.Close())
	}); err != nil {
		return err
	}
	if err := rest.Queues(func(number, queue int, q port.Movable) error {
		state, err := q.AppendState(nil)
		if err != nil {
			return fmt.Errorf("port %s: %w", names[number], err)
		}
		frames += len(q.Frames(nil))
		queues++
		return conn.Send(kindQueue, queueState{names[number], queue}, state)
	}); err != nil {
		return err
	}
	free := rest.Free()
	if frames+free != n.pool.Frames() {
		return fmt.Errorf("%d frames are in queues, %d are free, and there are %d", frames, free, n.pool.Frames())
	}
	for _, s := range handedOf(n.chain()) {
		state, err := s.handed.AppendRest(nil)
		if err != nil {
			return fmt.Errorf("stage %s: %w", s.name, err)
		}
		if err := conn.Send(kindRested, stageState{Stage: s.name}, state); err != nil {
			return err
		}
	}
	if err := conn.Send(kindEnd, endState{free, queues, peered, n.kernel.Given()}, nil); err != nil {
		return err
	}
	m, err := conn.Receive(kindReady)
	if err != nil {
		return err
	}
	m.Close()
	return conn.Send(kindGo, nil, nil)
}

// left ends the connection to the process that has taken the switch over, once that may open the spool and control.
func (n *Node) left() error {
	_ = n.leaving.SetDeadline(time.Now().Add(leaveLimit))
	return errors.Join(n.leavingErr, n.leaving.Send(kindLeft, nil, nil), n.leaving.Close())
}

// taking is the new process's side.
type taking struct {
	conn   *handover.Conn
	offer  offer
	memory *os.File
	ports  map[string]*port.Share
	shared []*handover.Message
	stages []*handover.Message
	begun  time.Time // when the old process was to rest
	closed bool
}

// take asks the switch's process for all that it has.
// Its ports have so many queues, in which so many frames wait at most.
func (n *Node) take(queues, held int) (_ *taking, err error) {
	path := takeoverSocket(n.config.Control.Socket)
	c, err := net.DialTimeout("unix", path, prepareLimit)
	if err != nil {
		return nil, fmt.Errorf("take switch %s over: %w: does it run, with control.takeover = true, and may this process (as root) reach its socket?", n.config.Switch.Name, err)
	}
	t := &taking{conn: handover.NewConn(c.(*net.UnixConn)), ports: map[string]*port.Share{}}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("take switch %s over: %w", n.config.Switch.Name, err), t.close(err))
		}
	}()
	if peer := socket.PeerOf(c); !peer.Privileged() {
		return nil, fmt.Errorf("no permission: process %d, which has %s, is of user %d, and not root's or this one's", peer.PID, path, peer.UID)
	}
	_ = t.conn.SetDeadline(time.Now().Add(prepareLimit))
	if err := t.conn.Send(kindHello, hello{Version: Version().Version, Process: os.Getpid(), Name: n.config.Switch.Name, Service: n.options.Service.name()}, nil); err != nil {
		return nil, t.because(err)
	}
	m, err := t.conn.Receive(kindOffer)
	if err != nil {
		return nil, err
	}
	defer m.Close()
	if err := m.Decode(&t.offer); err != nil {
		return nil, err
	}
	if err := n.options.Service.succeeds(t.offer.Process, t.offer.Service); err != nil {
		return nil, err
	}
	if len(m.Files) != 1 {
		return nil, errors.New("the packet memory is missing")
	}
	if most := max(t.offer.Ports, t.offer.Shared, t.offer.Stages); most > maxOffered {
		return nil, fmt.Errorf("%d ports or stages are announced, and there can be %d", most, maxOffered)
	}
	t.memory, m.Files = m.Files[0], nil
	for range t.offer.Ports {
		m, err := t.conn.Receive(kindPort)
		if err != nil {
			return nil, err
		}
		s := &port.Share{Files: m.Files}
		if err := m.Decode(s); err != nil {
			return nil, errors.Join(err, s.Close())
		}
		t.ports[s.Name] = s
	}
	for range t.offer.Shared {
		m, err := t.conn.Receive(kindShared)
		if err != nil {
			return nil, err
		}
		t.shared = append(t.shared, m)
	}
	for range t.offer.Stages {
		m, err := t.conn.Receive(kindStage)
		if err != nil {
			return nil, err
		}
		m.Close()
		t.stages = append(t.stages, m)
	}
	theirs, err := config.Parse([]byte(t.offer.Config))
	if err != nil {
		return nil, fmt.Errorf("its configuration: %w", err)
	}
	ours, err := newInForce(n.config)
	if err != nil {
		return nil, err
	}
	same, err := config.Parse([]byte(ours.text)) // as theirs came: lists without an element are alike
	if err != nil {
		return nil, err
	}
	if err := sameDevices(theirs, same); err != nil {
		return nil, err
	}
	// A switch runs with the frames that it has: more may wait only where queues are longer here.
	if longer := func(p port.Config) bool { return same.PortNamed(p.Name).Held() > p.Held() }; slices.ContainsFunc(theirs.Ports, longer) {
		d := n.config.Dataplane
		d.Frames = t.offer.Frames
		if err := d.CheckFrames(queues, held); err != nil {
			return nil, fmt.Errorf("the memory of the running switch: dataplane.%w, and restart the switch", err)
		}
	}
	return t, nil
}

// because prefers what the other side has said to why it was not heard.
func (t *taking) because(err error) error {
	if _, said := t.conn.Next(); errors.As(said, new(handover.RefusedError)) {
		return said
	}
	return err
}

// sameDevices refuses a configuration whose ports and memory are not those that are taken over.
func sameDevices(theirs, ours *config.Config) error {
	var errs []error
	for _, p := range theirs.Ports {
		switch other := ours.PortNamed(p.Name); {
		case other == nil:
			errs = append(errs, fmt.Errorf("port %s is missing here", p.Name))
		case (p.Held() == 0) != (other.Held() == 0):
			errs = append(errs, fmt.Errorf("port %s has rate_bits or classes there and not here, or here and not there", p.Name))
		}
	}
	for _, p := range ours.Ports {
		if theirs.PortNamed(p.Name) == nil {
			errs = append(errs, fmt.Errorf("port %s is missing there", p.Name))
		}
	}
	for _, c := range config.Diff(theirs, ours) {
		key := c.Key
		switch table, after, _ := strings.Cut(key, "."); {
		case key == "switch.id", key == "workers.count", table == "dataplane":
		case strings.HasPrefix(table, "port[") && after != "" && !ofQueues(after): // without it, a whole port is missing in one of both
			at, err := strconv.Atoi(strings.Trim(table, "port[]"))
			if err != nil || at >= len(ours.Ports) {
				continue
			}
			key += " of port " + ours.Ports[at].Name
		default:
			continue
		}
		switch {
		case c.Old == "":
			errs = append(errs, fmt.Errorf("%s is missing there and %s here", key, c.New))
		case c.New == "":
			errs = append(errs, fmt.Errorf("%s is %s there and missing here", key, c.Old))
		default:
			errs = append(errs, fmt.Errorf("%s is %s there and %s here", key, c.Old, c.New))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("the new process takes over ports, memory and workers as they are: %w: change them in the running switch first (weir ctl reload), or afterwards", err)
	}
	return nil
}

// ofQueues is about a key of a port's rate or classes: these may differ, as the new process puts what waits into its own.
func ofQueues(key string) bool {
	return key == "rate_bits" || key == "queue_packets" || strings.HasPrefix(key, "class[")
}

// close lets go of what was not taken, and says why.
func (t *taking) close(why error) error {
	if t.closed {
		return nil
	}
	t.closed = true
	if why != nil && !errors.As(why, new(handover.RefusedError)) {
		t.conn.Refuse(why)
	}
	errs := []error{t.conn.Close()}
	if t.memory != nil {
		errs = append(errs, t.memory.Close())
	}
	for _, s := range t.ports {
		errs = append(errs, s.Close())
	}
	for _, m := range t.shared {
		m.Close()
	}
	return errors.Join(errs...)
}

// enter has the old process's workers rest, takes what their queues know, and returns when this process may go on.
func (n *Node) enter(ctx context.Context) error {
	t := n.taking
	if err := n.awaitKernel(ctx); err != nil {
		return err
	}
	if err := n.takeStates(); err != nil {
		return err
	}
	t.begun = time.Now()
	_ = t.conn.SetDeadline(t.begun.Add(prepareLimit))
	if err := t.conn.Send(kindRest, nil, nil); err != nil {
		return t.because(err)
	}
	queues, stages, size := map[queueState][]byte{}, map[string][]byte{}, 0
	peers := map[string]*port.Share{}
	defer func() {
		for _, s := range peers {
			_ = s.Close()
		}
	}()
	var end endState
	for more := true; more; {
		m, err := t.conn.Next()
		if err != nil {
			return err
		}
		switch m.Kind {
		case kindQueue:
			var q queueState
			if err = m.Decode(&q); err == nil && queues[q] != nil {
				err = fmt.Errorf("queue %d of port %s came twice", q.Queue, q.Port)
			}
			queues[q] = m.Rest
		case kindRested:
			var s stageState
			if err = m.Decode(&s); err == nil && stages[s.Stage] != nil {
				err = fmt.Errorf("stage %s came twice", s.Stage)
			}
			stages[s.Stage] = m.Rest
		case kindPeers:
			s := new(port.Share)
			if err = m.Decode(s); err == nil {
				s.Files, m.Files = m.Files, nil
				if peers[s.Name] != nil {
					err = errors.Join(fmt.Errorf("port %s came twice", s.Name), s.Close())
				} else {
					peers[s.Name] = s
				}
			}
		case kindEnd:
			err, more = m.Decode(&end), false
		default:
			err = fmt.Errorf("message %d came among the states", m.Kind)
		}
		m.Close()
		if size += len(m.Rest); err == nil && size > maxStates {
			err = fmt.Errorf("states of more than %d MiB came", maxStates>>20)
		}
		if err != nil {
			return err
		}
	}
	if err := n.kernel.Take(end.Hosts); err != nil {
		return err
	}
	if len(queues) != end.Queues {
		return fmt.Errorf("%d queues came, and not %d", len(queues), end.Queues)
	}
	names, entered := n.portNames(), 0
	peered, err := n.sw.EnterPeered(func(number int) (*port.Share, error) {
		s := peers[names[number]]
		if s == nil {
			return nil, fmt.Errorf("port %s: nothing came of its peers", names[number])
		}
		return s, nil
	})
	if err != nil {
		return err
	}
	if peered != end.Peered {
		return fmt.Errorf("%d ports have peers here, and %d there", peered, end.Peered)
	}
	if err := n.sw.Enter(func(number, queue int) ([]byte, bool) {
		state, ok := queues[queueState{names[number], queue}]
		entered++
		return state, ok
	}); err != nil {
		return err
	}
	if entered != end.Queues || n.pool.Free() != end.Free {
		return fmt.Errorf("%d queues have states and %d frames are free, and not %d and %d", entered, n.pool.Free(), end.Queues, end.Free)
	}
	handed := n.takenStages()
	for _, s := range handed {
		if err := s.handed.Enter(stages[s.name]); err != nil {
			return fmt.Errorf("stage %s: %w", s.name, err)
		}
	}
	if err := t.conn.Send(kindReady, nil, nil); err != nil {
		return t.because(err)
	}
	m, err := t.conn.Receive(kindGo)
	if err != nil {
		return err
	}
	m.Close()
	n.sw.Begin()
	for _, s := range handed {
		s.handed.Begin()
	}
	return nil
}

// awaitKernel waits until the router has the kernel's routes and addresses, if it has host interfaces: it forwards by them from its first packet on.
func (n *Node) awaitKernel(ctx context.Context) error {
	if m, ok := moduleOf[*l3.Module](n.chain()); !ok || len(n.hostWants(m)) == 0 {
		return nil
	}
	late := time.NewTimer(prepareLimit)
	defer late.Stop()
	var failed error // a look that a change interrupts fails, and the next one may not
	for {
		select {
		case failed = <-n.kernelRead:
			if failed == nil {
				return nil
			}
		case <-ctx.Done():
			return ctx.Err()
		case <-late.C:
			return errors.Join(fmt.Errorf("the kernel's routes of the host interfaces were not read within %v: try again", prepareLimit), failed)
		}
	}
}

// takenStages are those of this graph whose memory the other process has offered.
func (n *Node) takenStages() (all []handedStage) {
	for _, s := range handedOf(n.chain()) {
		if slices.ContainsFunc(n.taking.shared, func(m *handover.Message) bool { return stageOf(m) == s.name }) {
			all = append(all, s)
		}
	}
	return all
}

func stageOf(m *handover.Message) string {
	var s stageState
	if m.Decode(&s) != nil {
		return ""
	}
	return s.Stage
}

// takeShared gives the stages of a graph the memory of their forerunners, before the workers make theirs. What this graph does not have is left out.
func (n *Node) takeShared(chain []pipeline.Named) error {
	for _, s := range handedOf(chain) {
		for _, m := range n.taking.shared {
			if stageOf(m) != s.name {
				continue
			}
			files := m.Files
			m.Files = nil
			if err := s.handed.Take(m.Rest, files); err != nil {
				return fmt.Errorf("stage %s: %w", s.name, err)
			}
		}
	}
	return nil
}

// takeStates gives the stages what their forerunners knew. What this graph does not have is left out.
func (n *Node) takeStates() error {
	numbers := map[string]uint16{}
	for i, name := range n.portNames() {
		numbers[name] = uint16(i)
	}
	for _, m := range n.taking.stages {
		var s stageState
		if err := m.Decode(&s); err != nil {
			return err
		}
		for _, stage := range n.chain() {
			stateful, ok := stage.Module.(pipeline.Stateful)
			if !ok || stage.Name != s.Stage {
				continue
			}
			if err := stateful.TakeState(m.Rest, s.Names, numbers); err != nil {
				return fmt.Errorf("stage %s: %w", s.Stage, err)
			}
		}
	}
	n.taking.stages = nil
	return nil
}

// entered says that the workers forward, waits until the old process has let go of the spool and control, and opens them here.
func (n *Node) entered() error {
	t := n.taking
	blocked := time.Since(t.begun)
	n.blocked.Store(int64(blocked))
	sent := t.conn.Send(kindForwarding, nil, nil)
	n.log.Info("took the switch over", zap.Int("from process", t.offer.Process), zap.String("of version", t.offer.Version), zap.Duration("blocked", blocked))
	errs := []error{n.sw.Entered()}
	n.kernel.Release()
	_ = t.conn.SetDeadline(time.Now().Add(leaveLimit))
	m, err := t.conn.Receive(kindLeft)
	if err != nil || sent != nil {
		n.log.Warn("the process before did not say that it has let go of the spool and control", zap.Error(errors.Join(sent, err)))
	} else {
		m.Close()
	}
	errs = append(errs, t.close(nil), n.listen(), n.path.Open(n.config.Telemetry))
	return errors.Join(errs...)
}

// shareOf is what another process has of a port, nil if nothing is taken over.
func (n *Node) shareOf(name string) *port.Share {
	if n.taking == nil || n.taking.ports[name] == nil || n.taking.ports[name].Absent() {
		return nil
	}
	return n.taking.ports[name]
}

// openTaken makes the port of a share.
func (n *Node) openTaken(c port.Config, s *port.Share) (port.Port, error) {
	if c.Driver != s.Driver {
		return nil, fmt.Errorf("port %s: the driver is %s there", c.Name, s.Driver)
	}
	c = n.withWorkers(c)
	switch c.Driver {
	case port.DriverXSK:
		if err := n.makeMemory(); err != nil {
			return nil, err
		}
		p, err := port.TakeXSK(c, n.memory, s)
		if err != nil {
			return nil, err // not p: a nil pointer in an interface is not nil
		}
		return p, nil
	case port.DriverTap:
		d := n.config.Dataplane
		d.FrameSize = n.pool.FrameSize()
		p, err := port.TakeTap(c, d, s)
		if err != nil {
			return nil, err
		}
		return p, nil
	case port.DriverVhost:
		p, err := port.TakeVhost(c, n.pool.FrameSize(), s)
		if err != nil {
			return nil, err
		}
		return p, nil
	case port.DriverMemif:
		p, err := port.TakeMemif(c, n.pool.FrameSize(), s)
		if err != nil {
			return nil, err
		}
		return p, nil
	}
	return nil, fmt.Errorf("port %s: no process can take over a port of the driver %s", c.Name, c.Driver)
}

// poolConfig is that of the packet memory: the other process's, where there is one.
func (n *Node) poolConfig(queues, held int) packet.PoolConfig {
	c := n.config
	p := packet.PoolConfig{
		Frames:    c.Dataplane.FramesFor(queues, held, c.Workers.Count),
		FrameSize: c.Dataplane.FrameSizeFor(c.Ports),
		HugePages: c.Dataplane.HugePages,
		Audit:     c.Dataplane.Audit,
		Shared:    c.Control.Takeover && !n.options.NoControl,
	}
	if n.taking != nil {
		p.Frames, p.FrameSize, p.File = n.taking.offer.Frames, n.taking.offer.FrameSize, n.taking.memory
	}
	return p
}

// TakeoverMetrics are how the switch came to this process, and how often another one did not get it.
func TakeoverMetrics(blocked time.Duration, failed uint64) []*api.Metric {
	return []*api.Metric{
		{Stage: "takeover", Name: "blocked_seconds", Help: "time in which no process forwarded when this one took the switch over, 0 if it did not",
			Value: blocked.Seconds(), Gauge: true},
		{Stage: "takeover", Name: "refused_total", Help: "takeovers of this process's switch that were refused, or failed", Value: float64(failed)},
	}
}
