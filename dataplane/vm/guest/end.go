package main

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"strings"
	"time"

	"github.com/weirswitch/weir/dataplane/lab"
	"github.com/weirswitch/weir/dataplane/lab/netns"
	"github.com/weirswitch/weir/dataplane/vm"
)

// end is this machine as one of two that talk over its only NIC.
type end struct {
	*vm.End
	here      *netns.Namespace
	own, peer netip.Addr
	boot      string // of the other machine, as of the last exchange
}

// transferPort is where the second machine serves transfers.
const transferPort = 9000

// startEnd finds the NIC and gives it its address.
func startEnd(e *vm.End) (*end, error) {
	n := &end{End: e}
	address := func(i int) netip.Addr { return netip.MustParseAddr(fmt.Sprintf("10.0.0.%d", i+1)) }
	n.own, n.peer = address(e.Number), address(1-e.Number)
	var err error
	if n.here, err = netns.Current(); err != nil {
		return nil, err
	}
	if err := n.here.DisableIPv6(); err != nil {
		return nil, err
	}
	links, err := n.here.Netlink().LinkList()
	if err != nil {
		return nil, err
	}
	for _, link := range links {
		if link.Attrs().HardwareAddr.String() != vm.MAC(e.Number) {
			continue
		}
		name := link.Attrs().Name
		return n, errors.Join(n.here.SetUp(name), n.here.AddAddress(name, netip.PrefixFrom(n.own, 24)))
	}
	return nil, errors.New("found no NIC: does the driver know the device?")
}

// runEnd does what this end has to do. The second one pings, and then serves until its machine ends.
func runEnd(ctx context.Context, plan *vm.End, report func(vm.Result)) error {
	n, err := startEnd(plan)
	if err != nil {
		return err
	}
	if plan.Number == 1 {
		listener, err := n.here.Listen("tcp", netip.AddrPortFrom(n.own, transferPort).String())
		if err != nil {
			return err
		}
		go n.try(vm.Ping, report, func() (string, error) { return "", n.ping(ctx) })
		return n.serve(listener)
	}
	n.try(vm.Ping, report, func() (string, error) { return "", n.ping(ctx) })
	n.try(vm.TCP, report, func() (string, error) { return n.transfer(plan.Bytes, testWait, 0, nil) })
	for plan.Migrate {
		n.try(vm.Migrate, report, func() (string, error) {
			report(vm.Result{Row: n.row(), Test: vm.Migrate, Outcome: vm.Begun})
			return n.transfer(paced, testWait, pause, nil)
		})
	}
	n.try(vm.Restart, report, func() (string, error) {
		began := false
		return n.transfer(paced, testWait, pause, func() {
			if !began {
				began = true
				report(vm.Result{Row: n.row(), Test: vm.Restart, Outcome: vm.Begun})
			}
		})
	})
	n.try(vm.Reboot, report, func() (string, error) {
		before := n.boot
		report(vm.Result{Row: n.row(), Test: vm.Reboot, Outcome: vm.Begun})
		var err error
		for deadline := time.Now().Add(testWait); n.boot == before && time.Now().Before(deadline); {
			_, err = n.transfer(piece, rebootWait, 0, nil)
		}
		if n.boot == before {
			err = errors.Join(errors.New("the other machine is the one of before"), err)
		}
		return "", err
	})
	return nil
}

// A transfer during which the switch restarts: so many bytes each way, with a pause behind each piece, so that it takes longer
// than the restart does. That it did is found in the counters of the new switch.
const (
	paced = 2 << 20
	piece = 32 << 10
	pause = 50 * time.Millisecond
)

// rebootWait is how long a transfer waits for a machine that may be gone.
const rebootWait = 10 * time.Second

func (n *end) row() string { return fmt.Sprintf("guest %d", n.Number+1) }

func (n *end) try(test vm.Test, report func(vm.Result), run func() (string, error)) {
	began := time.Now()
	result := vm.Result{Row: n.row(), Test: test}
	var err error
	result.Text, err = run()
	judge(&result, err)
	result.Seconds = time.Since(began).Seconds()
	report(result)
}

// ping waits for the other machine, and then pings it with packets of each size.
func (n *end) ping(ctx context.Context) error {
	from, to := lab.Stack{Namespace: n.here, Address: n.own}, lab.Stack{Namespace: n.here, Address: n.peer}
	for deadline := time.Now().Add(testWait); ; {
		try, cancel := context.WithTimeout(ctx, 3*time.Second)
		r := lab.Carry(try, lab.Traffic{Kind: lab.KindPing, Count: 1, Sizes: []int{64, 64}}, from, to)
		cancel()
		if r.OK() {
			break
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("no answer of %s: %s", n.peer, r.Fault)
		}
	}
	for _, size := range pingSizes {
		r := lab.Carry(ctx, lab.Traffic{Kind: lab.KindPing, Count: pings, Window: 1, Sizes: []int{size, size}}, from, to)
		if !r.OK() {
			return fmt.Errorf("%d bytes: sent %d, received %d, duplicated %d, wrong %d %s", size, r.Sent, r.Received, r.Duplicated, r.Wrong, r.Fault)
		}
	}
	return nil
}

// transfer sends bytes to the second machine and receives as many, and compares SHA-256 of both. each is called behind each piece.
func (n *end) transfer(bytes int64, wait, pause time.Duration, each func()) (text string, err error) {
	conn, err := net.DialTimeout("tcp", netip.AddrPortFrom(n.peer, transferPort).String(), rebootWait)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(wait)); err != nil {
		return "", err
	}
	began := time.Now()
	if err := binary.Write(conn, binary.BigEndian, bytes); err != nil {
		return "", err
	}
	var there, back [sha256.Size]byte
	digest := sha256.New()
	random := rand.NewChaCha8([32]byte{1})
	for left := bytes; left > 0; left -= piece {
		if _, err := io.CopyN(io.MultiWriter(conn, digest), random, min(left, piece)); err != nil {
			return "", fmt.Errorf("with %d bytes to send: %w", left, err)
		}
		if each != nil {
			each()
		}
		time.Sleep(pause)
	}
	if _, err := io.ReadFull(conn, there[:]); err != nil {
		return "", fmt.Errorf("read what the other machine received: %w", err)
	}
	if there != [sha256.Size]byte(digest.Sum(nil)) {
		return "", fmt.Errorf("the other machine received other bytes: %x", there)
	}
	digest.Reset()
	if _, err := io.CopyN(digest, conn, bytes); err != nil {
		return "", fmt.Errorf("receive: %w", err)
	}
	boot := make([]byte, len(back)+bootLength)
	if _, err := io.ReadFull(conn, boot); err != nil {
		return "", fmt.Errorf("read what the other machine sent: %w", err)
	}
	copy(back[:], boot)
	if back != [sha256.Size]byte(digest.Sum(nil)) {
		return "", errors.New("received other bytes than were sent")
	}
	n.boot = string(boot[len(back):])
	return fmt.Sprintf("%d bytes each way in %.1f s", bytes, time.Since(began).Seconds()), nil
}

// bootLength is that of the kernel's name for this start of the machine, a UUID.
const bootLength = 36

func (n *end) serve(listener net.Listener) error {
	text, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return err
	}
	boot := strings.TrimSpace(string(text))
	for {
		conn, err := listener.Accept()
		if err != nil {
			return err
		}
		go func() {
			defer conn.Close()
			if err := answer(conn, boot); err != nil {
				fmt.Println("guest: a transfer:", err)
			}
		}()
	}
}

// answer receives a transfer, and sends one of the same length.
func answer(conn net.Conn, boot string) error {
	if err := conn.SetDeadline(time.Now().Add(testWait)); err != nil {
		return err
	}
	var bytes int64
	if err := binary.Read(conn, binary.BigEndian, &bytes); err != nil {
		return err
	}
	digest := sha256.New()
	if _, err := io.CopyN(digest, conn, bytes); err != nil {
		return err
	}
	if _, err := conn.Write(digest.Sum(nil)); err != nil {
		return err
	}
	digest.Reset()
	if _, err := io.CopyN(io.MultiWriter(conn, digest), rand.NewChaCha8([32]byte{2}), bytes); err != nil {
		return err
	}
	_, err := conn.Write(append(digest.Sum(nil), boot...))
	return err
}
