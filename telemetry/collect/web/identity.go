package web

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"slices"

	"github.com/weirswitch/weir/internal/socket"
)

// Identity is who is at the other end of a connection.
type Identity struct {
	// Certificate is the common name of the client's, empty without one.
	Certificate string
	// UID is of a process that came by the unix socket, -1 otherwise.
	UID int
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
	return Identity{UID: p.UID, Admin: p.Privileged()}
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
