package web

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/weirswitch/weir/internal/socket"
)

// Identity is who is at the other end of a connection.
type Identity struct {
	// Certificate is the common name of the client's, empty without one.
	Certificate string
	// UID is of a process of this machine, by what the kernel says; -1: not known.
	UID int
	// Socket says that it came by the unix socket.
	Socket bool
	// Admin may change the collector, not only ask it.
	Admin bool
}

// String names the client in logs.
func (id Identity) String() string {
	switch {
	case id.Certificate != "":
		return fmt.Sprintf("certificate %q", id.Certificate)
	case id.UID >= 0:
		return fmt.Sprintf("uid %d", id.UID)
	}
	return "a client of this machine"
}

type identityKey struct{}

// IdentityOf returns who sent a request that came through a Server.
func IdentityOf(r *http.Request) Identity {
	if id, ok := r.Context().Value(identityKey{}).(Identity); ok {
		return id
	}
	return Identity{UID: -1}
}

// peerOf asks the kernel who connected to a unix socket.
func peerOf(c net.Conn) Identity {
	p := socket.PeerOf(c)
	return Identity{UID: p.UID, Socket: true, Admin: p.Privileged()}
}

// ownerOf asks the kernel who connected over loopback. Whoever it is changes nothing: browsers may be made to send
// what their user does not mean.
func ownerOf(c net.Conn) Identity {
	uid, err := socket.OwnerOf(c)
	if err != nil {
		uid = -1
	}
	return Identity{UID: uid}
}

// mayRead reports whether a client may read what was measured; why says what to do about it.
func (s *Server) mayRead(id Identity) (why string, ok bool) {
	switch {
	case id.Certificate != "":
		if id.Admin || slices.Contains(s.config.Readers, id.Certificate) || s.anyReads {
			return "", true
		}
		return fmt.Sprintf("%s may not read: name it in tls.readers, or in tls.admins", id), false
	case id.Socket, socket.OwnUser(id.UID) && id.UID >= 0, slices.Contains(s.config.Users, id.UID):
		return "", true
	case id.UID < 0:
		return "the kernel does not say which user asks: ask by the unix socket (collect.socket)", false
	}
	return fmt.Sprintf("user %d may not read: without certificates the collector is there for root and its own user; name others in collect.users", id.UID), false
}

// mayLog keeps those who are refused from filling the log: a line a second; the counter has all.
func (s *Server) mayLog() bool {
	now := time.Now().Unix()
	return s.logged.Swap(now) != now
}

// open are the paths that everybody may ask: they say how the collector is, and nothing of what was measured.
var open = []string{"/healthz", "/readyz", "/metrics"}

// readers lets only those through who may read.
func (s *Server) readers(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id := IdentityOf(r)
		if r.TLS != nil && s.keeper != nil {
			if err := s.keeper.Check(r.TLS.PeerCertificates); err != nil {
				s.denied.Add(1)
				if s.mayLog() {
					s.log.Warn("refused", who(id), call(r), zap.Error(err))
				}
				w.Header().Set("Connection", "close")
				http.Error(w, err.Error(), http.StatusForbidden)
				return
			}
		}
		if why, ok := s.mayRead(id); !ok && !slices.Contains(open, r.URL.Path) {
			s.denied.Add(1)
			if s.mayLog() {
				s.log.Warn("refused: not a reader", who(id), call(r))
			}
			http.Error(w, why, http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// identified finds out who sends requests that came by TLS; what came otherwise is known by
// its connection.
func (s *Server) identified(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.TLS != nil {
			id := Identity{UID: -1, Certificate: "without a name"}
			if len(r.TLS.PeerCertificates) != 0 && r.TLS.PeerCertificates[0].Subject.CommonName != "" {
				id.Certificate = r.TLS.PeerCertificates[0].Subject.CommonName
				id.Admin = slices.Contains(s.config.Admins, id.Certificate)
			}
			r = r.WithContext(context.WithValue(r.Context(), identityKey{}, id))
		}
		next.ServeHTTP(w, r)
	})
}

// Admins lets only admins through, and logs what they asked for and who was refused.
func (s *Server) Admins(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id := IdentityOf(r)
		if !id.Admin {
			s.denied.Add(1)
			s.log.Warn("refused: not an admin", who(id), call(r))
			http.Error(w, fmt.Sprintf("%s may read, but not change: come by the socket as root, or with a certificate that tls.admins names", id), http.StatusForbidden)
			return
		}
		s.log.Info("an admin's call", who(id), call(r))
		next.ServeHTTP(w, r)
	})
}
