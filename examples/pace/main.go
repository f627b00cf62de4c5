// Pace is a sender of UDP packets that paces by what PINT's sink reports of its path, as hosts in a data centre could:
//
//	pace -to 10.0.0.2:9 -feedback 5010 -target 0.01 -rate 20000
//
// It sends -rate packets of -size bytes per second at first. With each message of the sink it moves its rate to where the fullest link of
// its path is used to the -target. It prints a line per message: the use, and the new rate.
package main

import (
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"sync/atomic"
	"time"
)

func main() {
	to := flag.String("to", "", "where packets go, as 10.0.0.2:9")
	port := flag.Int("feedback", 5010, "feedback_port of the sink")
	target := flag.Float64("target", 0.9, "share of the fullest link to be used")
	rate := flag.Float64("rate", 1000, "packets per second at first")
	size := flag.Int("size", 1400, "bytes of a packet's payload")
	count := flag.Int("count", 0, "messages after which to end; 0: never")
	flag.Parse()
	if err := run(*to, *port, *target, *rate, *size, *count); err != nil {
		fmt.Fprintln(os.Stderr, "pace:", err)
		os.Exit(1)
	}
}

func run(to string, port int, target, rate float64, size, count int) error {
	if !(target > 0) || !(rate > 0) || size < 8 || size > 65_000 {
		return errors.New("choose a target and a rate above 0, and 8 to 65000 bytes")
	}
	c, err := net.Dial("udp", to)
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	defer c.Close()
	feedback, err := net.ListenUDP("udp", &net.UDPAddr{Port: port})
	if err != nil {
		return fmt.Errorf("listen for feedback: %w", err)
	}
	defer feedback.Close()
	var gap atomic.Int64 // ns between two packets
	gap.Store(int64(1e9 / rate))
	failed := make(chan error, 1)
	go func() { failed <- send(c, size, &gap) }()
	heard := make(chan error, 1)
	go func() { heard <- listen(feedback, c.LocalAddr().(*net.UDPAddr).Port, target, rate, count, &gap) }()
	select {
	case err = <-failed:
	case err = <-heard:
	}
	return err
}

// send sends for ever. Packets that were to leave while the sender slept leave at once, 32 at most.
func send(c net.Conn, size int, gap *atomic.Int64) error {
	packet := make([]byte, size)
	next := time.Now()
	for n := uint64(0); ; n++ {
		binary.BigEndian.PutUint64(packet, n)
		if _, err := c.Write(packet); err != nil {
			return fmt.Errorf("send: %w", err)
		}
		step := time.Duration(gap.Load())
		next = next.Add(step)
		if late := time.Since(next); late < 0 {
			time.Sleep(-late)
		} else if late > 32*step {
			next = time.Now()
		}
	}
}

// listen adapts the rate with each message about the flow.
func listen(feedback *net.UDPConn, port int, target, rate float64, count int, gap *atomic.Int64) error {
	const messageLen, whole = 16, 65536
	message := make([]byte, 64)
	for heard := 0; count == 0 || heard < count; {
		n, _, err := feedback.ReadFromUDP(message)
		if err != nil {
			return fmt.Errorf("read feedback: %w", err)
		}
		if n != messageLen || message[0] != 1 || int(binary.BigEndian.Uint16(message[2:])) != port {
			continue
		}
		heard++
		use := float64(binary.BigEndian.Uint32(message[8:])) / whole
		// A step down is at most a half, and up a twentieth: what is reported is a round trip old.
		rate *= min(max(target/max(use, target/100), 0.5), 1.05)
		rate = max(rate, 10)
		gap.Store(int64(1e9 / rate))
		fmt.Printf("use %.4f rate %.0f\n", use, rate)
	}
	return nil
}
