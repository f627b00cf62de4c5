package live

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	nats_js "github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"
	"golang.org/x/sys/unix"

	"github.com/weirswitch/weir/bench"
	"github.com/weirswitch/weir/telemetry/collect"
	"github.com/weirswitch/weir/telemetry/collect/embed"
	"github.com/weirswitch/weir/telemetry/jetstream"
)

// Part is what one process of a measurement is: exactly one of its fields is set.
type Part struct {
	Server    *Server    `json:"server,omitempty"`
	Publisher *Publisher `json:"publisher,omitempty"`
}

// RunPart is what a process of a measurement does: it reads its part from a file, prints a line when it is ready, and ends when its standard input
// does, so that none outlives the measurement.
func RunPart(ctx context.Context, file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var p Part
	if err := json.Unmarshal(text, &p); err != nil {
		return err
	}
	lines, end := make(chan string), make(chan struct{})
	go func() {
		defer close(end)
		for s := bufio.NewScanner(os.Stdin); s.Scan(); {
			lines <- s.Text()
		}
	}()
	switch {
	case p.Server != nil:
		return p.Server.run(ctx, end)
	case p.Publisher != nil:
		if err := giveWay(); err != nil {
			return fmt.Errorf("give way to servers and collectors: %w", err)
		}
		return p.Publisher.run(ctx, lines, end)
	}
	return errors.New("a part is neither a server nor a publisher")
}

// ready tells the measurement that the part is.
func ready() error {
	_, err := fmt.Println(readyLine)
	return err
}

// giveWay has the servers and the collectors go before this process on the cores that they share: switches are other machines.
func giveWay() error {
	if _, err := bench.SessionNice(os.Getpid(), publisherNice); err != nil {
		return err
	}
	threads, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return err
	}
	for _, t := range threads { // from which others inherit it
		id, err := strconv.Atoi(t.Name())
		if err == nil {
			err = unix.Setpriority(unix.PRIO_PROCESS, id, publisherNice)
		}
		if err != nil && !errors.Is(err, unix.ESRCH) { // it has ended
			return err
		}
	}
	return nil
}

const publisherNice = 10

const (
	readyLine = "ready"
	startLine = "start"
	stopLine  = "stop"
)

// Server is one of the cluster.
type Server struct {
	Name     string   `json:"name"`
	Folder   string   `json:"folder"`
	Listen   string   `json:"listen"`
	Cluster  string   `json:"cluster"`
	Routes   []string `json:"routes"`
	Password string   `json:"password"` // file
	Switches int      `json:"switches"`
}

// readers are the clients that read the stream: the collectors, and the accounting.
var readers = []string{"c1", "c2", "accounting"}

func switchName(id int) string { return fmt.Sprintf("s%d", id) }

func (s *Server) run(ctx context.Context, end <-chan struct{}) error {
	n := collect.DefaultNATS()
	n.Listen, n.Replicas = s.Listen, replicas
	n.Cluster = collect.Cluster{Name: "live", Listen: s.Cluster, Routes: s.Routes, PasswordFile: s.Password}
	for _, r := range readers {
		n.Clients = append(n.Clients, collect.Client{Name: r, Role: collect.RoleCollector, PasswordFile: s.Password})
	}
	for id := 1; id <= s.Switches; id++ {
		n.Clients = append(n.Clients, collect.Client{Name: switchName(id), Role: collect.RoleSwitch, Switch: uint32(id), PasswordFile: s.Password})
	}
	if err := n.Validate(); err != nil {
		return err
	}
	log, err := zap.NewProduction()
	if err != nil {
		return err
	}
	server, err := embed.Start(embed.Config{Name: s.Name, Data: filepath.Join(s.Folder, s.Name), NATS: n, Retention: retention(), Log: log})
	if err != nil {
		return err
	}
	if err := ready(); err != nil {
		return errors.Join(err, server.Close())
	}
	making, stop := context.WithCancel(ctx)
	var works sync.WaitGroup
	works.Go(func() { makeStream(making, server, log) })
	select {
	case <-ctx.Done():
	case <-end:
	}
	stop()
	works.Wait()
	return server.Close()
}

// makeStream makes the stream, as soon as the cluster can: clients may not.
func makeStream(ctx context.Context, server *embed.Server, log *zap.Logger) {
	try := func() error {
		ctx, cancel := context.WithTimeout(ctx, makeWait)
		defer cancel()
		nc, err := server.Connect(ctx)
		if err != nil {
			return err
		}
		defer nc.Close()
		js, err := nats_js.New(nc)
		if err != nil {
			return err
		}
		r := retention()
		_, err = jetstream.EnsureStream(ctx, js, jetstream.StreamConfig{Age: r.Age, Bytes: r.Bytes, Replicas: replicas})
		return err
	}
	for ctx.Err() == nil {
		err := try()
		if err == nil {
			return
		}
		log.Info("the stream is not there yet", zap.Error(err))
		select {
		case <-ctx.Done():
		case <-time.After(makePause):
		}
	}
}

const (
	makeWait  = 10 * time.Second
	makePause = 200 * time.Millisecond
)

const replicas = 3

// retention keeps all records of a run.
func retention() collect.Retention {
	r := collect.DefaultRetention()
	r.Bytes = 100 << 30
	return r
}
