package embed

import (
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"go.uber.org/zap"

	"github.com/weirswitch/weir/telemetry/collect"
)

// watchInterval is between two looks at the disk, and at first between two attempts to
// write to it again; these become rarer.
const (
	watchInterval   = time.Second
	longestInterval = time.Minute
)

// Problem says why records are not taken, empty: they are.
func (s *Server) Problem() string {
	if p := s.problem.Load(); p != nil {
		return *p
	}
	return ""
}

// watch starts JetStream again, which keeps nothing more once it could not write: its
// disk was full, say, and somebody made room.
func (s *Server) watch() {
	tick := time.NewTicker(watchInterval)
	defer tick.Stop()
	pause, next := watchInterval, time.Time{}
	for {
		select {
		case <-s.stop:
			return
		case <-tick.C:
		}
		fault := s.fault()
		if fault == "" {
			if s.problem.Swap(nil) != nil {
				s.config.Log.Info("records are taken again")
			}
			continue
		}
		fault = "records are not taken: " + fault + ": make room on the disk of " + s.config.Data + ", they are taken again then; or start anew with a lower retention.bytes"
		if s.problem.Swap(&fault) == nil {
			s.config.Log.Error(fault)
			pause = watchInterval
		}
		if s.full() || time.Now().Before(next) {
			continue
		}
		s.restart()
		next, pause = time.Now().Add(pause), min(2*pause, longestInterval)
	}
}

// fault is why JetStream does not write, empty: it does.
func (s *Server) fault() string {
	if !s.nats.JetStreamEnabled() {
		return "JetStream is off"
	}
	for _, e := range s.nats.Healthz(&server.HealthzOptions{Details: true}).Errors {
		// Others pass, such as of a stream that catches up with those of other servers.
		if strings.Contains(e.Error, "write error") {
			return e.Error
		}
	}
	return ""
}

// restart reads the folder anew, and goes on behind what is whole.
func (s *Server) restart() {
	s.config.Log.Warn("JetStream starts anew", zap.String("folder", s.config.Data))
	s.nats.ShutdownJetStream()
	err := s.nats.EnableJetStream(&server.JetStreamConfig{
		StoreDir: s.config.Data, MaxMemory: maxMemory, MaxStore: maxStore,
		SyncInterval: s.config.NATS.Sync, SyncAlways: s.config.NATS.Sync == 0, Strict: true,
	})
	if err != nil {
		s.config.Log.Error("JetStream does not start", zap.Error(err))
	}
}

// room is how much the disk must have before a server that met its end tries again.
const room = 4 * collect.MaxPayload

func (s *Server) full() bool {
	n, err := available(s.config.Data)
	return err != nil || n < room
}

// available is what the disk of a folder has room for, in bytes.
func available(folder string) (uint64, error) {
	var st syscall.Statfs_t
	if err := syscall.Statfs(folder, &st); err != nil {
		return 0, err
	}
	return st.Bavail * uint64(st.Bsize), nil
}

// tooSmall says that the disk is full before the oldest records go; empty: it has room for what may be
// kept, or unknown.
func (c *Config) tooSmall() string {
	has, err := available(c.Data)
	if err != nil {
		return ""
	}
	err = filepath.WalkDir(c.Data, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		info, err := d.Info()
		if err == nil {
			has += uint64(info.Size())
		}
		return err
	})
	indices := c.Retention.Bytes / 16
	if need := uint64(c.Retention.Bytes + indices + room); err != nil || has >= need {
		return ""
	}
	return fmt.Sprintf("retention.bytes: %d: the disk of %s has room for %d, with indices, and no records are taken when it is full: lower it, or choose another folder",
		c.Retention.Bytes, c.Data, has)
}
