package lab

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
)

// ForwardConfig says whence connections are carried where.
type ForwardConfig struct {
	Forwards []ForwardTo `json:"forwards"`
}

// ForwardTo is a listener that the process inherits, as a descriptor, from whichever network namespace it was opened
// in, and the address that its connections go to in the process's own.
type ForwardTo struct {
	FD int    `json:"fd"`
	To string `json:"to"`
}

// Forward carries connections until ctx ends. It calls ready once it accepts them. A connection whose far end does
// not answer is closed, as if there had been no listener.
func Forward(ctx context.Context, c *ForwardConfig, ready func()) error {
	var all sync.WaitGroup
	defer all.Wait()
	var listeners []net.Listener
	for _, f := range c.Forwards {
		file := os.NewFile(uintptr(f.FD), "listener")
		listener, err := net.FileListener(file)
		if err = errors.Join(err, file.Close()); err != nil {
			return fmt.Errorf("take over descriptor %d: %w", f.FD, err)
		}
		listeners = append(listeners, listener)
	}
	for i, listener := range listeners {
		all.Go(func() { accept(ctx, listener, c.Forwards[i].To) })
	}
	ready()
	<-ctx.Done()
	for _, listener := range listeners { // not by context.AfterFunc: a stop() that follows Done may come before it
		listener.Close()
	}
	return nil
}

// accept carries the connections of one listener until that is closed.
func accept(ctx context.Context, listener net.Listener, to string) {
	var all sync.WaitGroup
	defer all.Wait()
	for {
		near, err := listener.Accept()
		if err != nil {
			return
		}
		all.Go(func() {
			defer near.Close()
			var d net.Dialer
			far, err := d.DialContext(ctx, "tcp", to)
			if err != nil {
				return
			}
			defer far.Close()
			stop := context.AfterFunc(ctx, func() { near.Close(); far.Close() })
			defer stop()
			carry(near.(*net.TCPConn), far.(*net.TCPConn))
		})
	}
}

// carry passes bytes on in both directions until both have ended.
func carry(a, b *net.TCPConn) {
	var both sync.WaitGroup
	for _, direction := range [][2]*net.TCPConn{{a, b}, {b, a}} {
		both.Go(func() {
			_, _ = io.Copy(direction[1], direction[0])
			_ = direction[1].CloseWrite()
		})
	}
	both.Wait()
}
