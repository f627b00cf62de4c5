// Package socket is what a server needs beneath its protocol: it clears the place of a unix
// socket that nobody listens on any more, asks the kernel who is at the other end of one, and
// bounds the connections that are open at a time.
package socket
