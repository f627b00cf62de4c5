package embed

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"go.uber.org/zap"

	"github.com/weirswitch/weir/internal/certs"
	"github.com/weirswitch/weir/internal/safefile"
	"github.com/weirswitch/weir/telemetry/collect"
	"github.com/weirswitch/weir/telemetry/jetstream"
)

// Config is what a server is made of.
type Config struct {
	// Name of the server, which no other one of its cluster has.
	Name string
	// Data is the folder of its files, which is made if need be.
	Data      string
	NATS      collect.NATS
	Retention collect.Retention
	Log       *zap.Logger
}

// The bounds of what clients may ask of the server.
const (
	maxClients = 16 << 10 // connections
	maxSubs    = 256      // of a connection
	authWait   = 5 * time.Second
	readyWait  = 30 * time.Second
)

// Server is a running server.
type Server struct {
	config Config
	nats   *server.Server
	auth   *auth
	lock   *os.File
	front  *front

	problem atomic.Pointer[string] // why records are not taken; nil: they are
	stop    chan struct{}
	works   sync.WaitGroup
}

// Start starts a server and waits until it takes connections. It handles no
// signals. A folder in which another collector works is refused.
func Start(c Config) (_ *Server, err error) {
	s := &Server{config: c, stop: make(chan struct{})}
	if s.lock, err = claim(c.Data); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.lock.Close())
		}
	}()
	if s.auth, err = newAuth(&c.NATS); err != nil {
		return nil, err
	}
	if why := c.tooSmall(); why != "" {
		c.Log.Warn(why)
	}
	s.auth.log = c.Log.Named("nats")
	var keeper *certs.Keeper
	if c.NATS.TLS != (collect.TLS{}) {
		if keeper, err = c.NATS.TLS.Keep("nats.tls", func(err error) { c.Log.Error("nats.tls", zap.Error(err)) }); err != nil {
			return nil, err
		}
	}
	options, err := s.options(keeper)
	if err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", c.NATS.Listen)
	if err != nil {
		return nil, fmt.Errorf("nats.listen: %w: choose an address of this machine and a port that is free", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, listener.Close())
		}
	}()
	if s.nats, err = server.NewServer(options); err != nil {
		return nil, fmt.Errorf("set up the NATS server: %w", err)
	}
	s.front = newFront(s, listener, keeper, s.auth.open)
	s.auth.front = s.front // before anybody can come
	s.nats.SetLoggerV2(&logger{log: c.Log.Named("nats")}, false, false, false)
	s.nats.Start()
	if !s.nats.ReadyForConnections(readyWait) {
		s.nats.Shutdown()
		return nil, fmt.Errorf("the NATS server is not ready after %v: see the log", readyWait)
	}
	s.front.start()
	s.works.Go(s.watch)
	return s, nil
}

// claim locks the folder until the process's end.
func claim(folder string) (*os.File, error) {
	if err := safefile.Folder(folder, func(name string) bool { return name == "lock" || name == "jetstream" }); err != nil {
		return nil, fmt.Errorf("collect.data: %w: choose a folder that can be made", err)
	}
	path := filepath.Join(folder, "lock")
	lock, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("collect.data: %w: choose a folder that may be written", err)
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return nil, errors.Join(fmt.Errorf("collect.data: another collector works in %s: stop it, or choose another folder", folder), lock.Close())
	}
	return lock, nil
}

func (s *Server) options(keeper *certs.Keeper) (*server.Options, error) {
	c := &s.config
	o := &server.Options{
		ServerName: c.Name, DontListen: true,
		NoSigs: true, NoLog: true,
		JetStream: true, DisableJetStreamBanner: true,
		StoreDir: c.Data, JetStreamMaxMemory: maxMemory, JetStreamMaxStore: maxStore,
		SyncInterval: c.NATS.Sync, SyncAlways: c.NATS.Sync == 0,
		MaxPayload: collect.MaxPayload, MaxPending: 8 * collect.MaxPayload,
		MaxConn: maxClients, MaxSubs: maxSubs, AuthTimeout: authWait.Seconds(), TLSTimeout: authWait.Seconds(),
		CustomClientAuthentication: s.auth,
	}
	if keeper != nil {
		o.TLSConfig = keeper.Server()
		o.TLS, o.TLSVerify = true, true
	}
	if c.NATS.Cluster.Name != "" {
		if err := s.cluster(o); err != nil {
			return nil, err
		}
	}
	return o, nil
}

// maxMemory is for streams in memory, of which there are none.
const maxMemory = 1 << 20

// maxStore bounds nothing: the stream, which is the only one, has its own bound. A server would
// not lower that of a stream which is larger than all that it may store.
const maxStore = 1 << 62

// cluster adds the server to those of other collectors.
func (s *Server) cluster(o *server.Options) error {
	c := s.config.NATS.Cluster
	host, port, err := split(c.Listen)
	if err != nil {
		return fmt.Errorf("nats.cluster.listen: %w", err)
	}
	// Servers of a cluster wait for a listener of clients: it is one that lets no client in (auth.admit), and that no
	// other server tells its clients of.
	o.DontListen, o.Host, o.Port = false, "127.0.0.1", server.RANDOM_PORT
	o.Cluster = server.ClusterOpts{Name: c.Name, Host: host, Port: port, AuthTimeout: authWait.Seconds(), NoAdvertise: true}
	password, err := secret(c.PasswordFile)
	if err != nil {
		return fmt.Errorf("nats.cluster.password_file: %w", err)
	}
	var user *url.Userinfo
	if password != "" {
		o.Cluster.Username, o.Cluster.Password = routeUser, password
		user = url.UserPassword(routeUser, password)
	}
	if o.TLSConfig != nil {
		// A route is a client too, so its certificate is for both sides.
		o.Cluster.TLSConfig = o.TLSConfig.Clone()
		o.Cluster.TLSConfig.RootCAs = o.TLSConfig.ClientCAs
		o.Cluster.TLSTimeout = authWait.Seconds()
		if o.CustomRouterAuthentication, err = newRouteAuth(o.TLSConfig.Certificates[0], c.Members, password); err != nil {
			return err
		}
	}
	for _, r := range c.Routes {
		o.Routes = append(o.Routes, &url.URL{Scheme: "nats", Host: r, User: user})
	}
	return nil
}

// routeUser is what servers of a cluster call themselves.
const routeUser = "weir"

// split takes HOST:PORT apart; port 0 is the kernel's choice.
func split(address string) (host string, port int, err error) {
	host, text, err := net.SplitHostPort(address)
	if err != nil {
		return "", 0, err
	}
	n, err := strconv.ParseUint(text, 10, 16)
	if err != nil {
		return "", 0, err
	}
	if n == 0 {
		return host, server.RANDOM_PORT, nil
	}
	return host, int(n), nil
}

// Address is where the server listens.
func (s *Server) Address() string {
	return s.front.listener.Addr().String()
}

// URL is the address as clients of this machine write it.
func (s *Server) URL() string {
	scheme := "nats://"
	if s.config.NATS.TLS != (collect.TLS{}) {
		scheme = "tls://"
	}
	return scheme + s.Address()
}

// Refused counts connections of clients that were closed at once: there were too many, or they were of
// another user.
func (s *Server) Refused() uint64 { return s.front.refused.Load() }

// Restrict says which clients, by their names, have more than their share of the stream: until they are
// not named any more, nothing is taken from them. Their records stay in their spools.
func (s *Server) Restrict(over map[string]bool) { s.front.restrict(over) }

// Connect connects within the process, as a collector.
func (s *Server) Connect(context.Context) (*nats.Conn, error) {
	return nats.Connect("", nats.InProcessServer(s.nats), nats.Name("weir collect"),
		nats.UserInfo(ownName, s.auth.own), nats.CustomInboxPrefix(jetstream.Inbox(ownName)), nats.MaxReconnects(-1), nats.ReconnectWait(reconnectWait))
}

// reconnectWait is the pause between two attempts within the process.
const reconnectWait = 100 * time.Millisecond

// Close ends the server and what it is asked for, and gives the folder free.
func (s *Server) Close() error {
	close(s.stop)
	err := s.front.close()
	s.works.Wait()
	s.nats.Shutdown()
	s.nats.WaitForShutdown()
	return errors.Join(err, s.lock.Close())
}

// password makes the one with which the collector enters its own server.
func password() string { return rand.Text() }
