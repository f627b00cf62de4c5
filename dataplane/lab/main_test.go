package lab

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"testing"
	"time"

	"github.com/BurntSushi/toml"
	"golang.org/x/sys/unix"

	"github.com/weirswitch/weir/dataplane/lab/netns"
	"github.com/weirswitch/weir/dataplane/lab/netnstest"
)

// The test binary is also what labs of these tests start: a small switch that
// cross-connects two interfaces through packet sockets, and a process that brings a lab up
// and then waits to be killed.
func TestMain(m *testing.M) {
	if len(os.Args) > 3 && os.Args[1] == "switch" {
		os.Exit(patchSwitch(os.Args[3]))
	}
	if len(os.Args) > 2 && os.Args[1] == "lab-up-and-hang" {
		os.Exit(upAndHang(os.Args[2]))
	}
	netnstest.Isolate()
	termWait = 5 * time.Second  // these switches wait for no records
	drainWait = 2 * time.Second // what is lost here is lost on purpose
	m.Run()
}

func upAndHang(file string) int {
	c, err := Load(file)
	if err != nil {
		fmt.Println(err)
		return 2
	}
	if _, err := Up(context.Background(), c, Options{File: file}); err != nil {
		fmt.Println(err)
		return 2
	}
	fmt.Println("up")
	select {}
}

// patchSwitch obeys the lab's contract with a switch: it reads its configuration, says "ready", forwards,
// and at SIGTERM drains, prints its report, and ends with status 0. Its graph may ask it to misbehave.
func patchSwitch(file string) int {
	var config struct {
		Switch struct {
			Name  string
			Graph []string
		}
		Port []struct{ Name, Interface string }
	}
	if _, err := toml.DecodeFile(file, &config); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	behaviour := config.Switch.Graph[0]
	if behaviour == "refuse" {
		fmt.Fprintln(os.Stderr, "this graph is refused")
		return 2
	}
	term := make(chan os.Signal, 1)
	signal.Notify(term, unix.SIGTERM)
	if behaviour == "overruns" {
		signal.Ignore(unix.SIGTERM)
	}
	report := SwitchReport{Name: config.Switch.Name, Balanced: true, Dropped: map[string]uint64{}}
	here, err := netns.Current()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	var ports []*netns.PacketSocket
	for _, p := range config.Port {
		socket, err := here.PacketSocket(p.Interface)
		if err = errors.Join(err, here.SeparateFrames(p.Interface)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 2
		}
		ports = append(ports, socket)
		report.Ports = append(report.Ports, PortReport{Name: p.Name, Driver: "packet", Mode: "sockets"})
	}
	if len(ports) != 2 {
		fmt.Fprintln(os.Stderr, "this switch has two ports")
		return 2
	}
	var all sync.WaitGroup
	for i := range ports {
		all.Go(func() { patchPort(ports[i], ports[1-i], &report.Ports[i], behaviour == "lossy") })
	}
	if ready := os.NewFile(3, "ready"); os.Getenv(readyVariable) == "3" {
		fmt.Fprintln(ready, "ready")
		ready.Close()
	}
	<-term
	for _, p := range ports {
		_ = p.SetDeadline(time.Now().Add(100 * time.Millisecond)) // what is in the sockets still goes
	}
	all.Wait()
	a, b := &report.Ports[0], &report.Ports[1]
	b.Transmitted, a.Transmitted = a.Transmitted, b.Transmitted // each was counted at the receiving side
	report.Received, report.Forwarded = a.Received+b.Received, a.Transmitted+b.Transmitted
	text, _ := json.Marshal(report)
	out := bufio.NewWriter(os.Stdout)
	fmt.Fprintf(out, "counters of %s:\n%s\n", report.Name, text)
	_ = out.Flush()
	return 0
}

// patchPort forwards until its deadline. A lossy one loses every hundredth packet of ICMP, TCP and UDP over IPv4, and does not say so.
func patchPort(from, to *netns.PacketSocket, r *PortReport, lossy bool) {
	buf, seen := make([]byte, 1<<16), 0
	for {
		n, err := from.Receive(buf)
		if err != nil {
			return
		}
		r.Received++
		if n > 23 && buf[12] == 8 && buf[13] == 0 && (buf[23] == 1 || buf[23] == 6 || buf[23] == 17) {
			if seen++; lossy && seen%100 == 0 {
				continue
			}
		}
		if to.Send(buf[:n]) == nil {
			r.Transmitted++
		}
	}
}
