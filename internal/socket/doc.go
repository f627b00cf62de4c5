// Package socket is what a server needs beneath its protocol: it removes a stale unix
// socket, asks the kernel who is at the other end of one, and
// bounds the connections that are open at a time.
package socket
