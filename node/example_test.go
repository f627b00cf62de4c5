package node_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"os/signal"

	"github.com/weirswitch/weir/config"
	"github.com/weirswitch/weir/dataplane/port"
	"github.com/weirswitch/weir/node"
)

// A switch between two ports in memory, which needs no privilege: left receives 1,000
// packets, and patch forwards each to right. Run returns when no port receives more.
func Example() {
	c, err := config.Parse([]byte(`
[switch]
name = "example"
graph = ["parse", "patch"]
[[port]]
interface = "left"
[[port]]
interface = "right"
[stages.patch]
pairs = [["left", "right"]]
`))
	if err != nil {
		log.Fatal(err)
	}
	packet := make([]byte, 60) // an Ethernet frame, without FCS
	copy(packet, "\x02\x00\x00\x00\x00\x02\x02\x00\x00\x00\x00\x01\x88\xb5")
	n, err := node.New(c, node.Options{NoControl: true, Ports: map[string]port.Port{
		"left":  port.NewMemory("left", 1, [][]byte{packet}, 1000),
		"right": port.NewMemory("right", 1, nil, 0),
	}})
	if err != nil {
		log.Fatal(err)
	}
	if err := n.Run(context.Background()); err != nil {
		log.Fatal(err)
	}
	report := n.Report()
	for _, p := range report.Ports {
		fmt.Printf("%s: received %d, forwarded %d, transmitted %d\n", p.Name, p.Received, p.Forwarded, p.Transmitted)
	}
	for _, s := range report.Stages {
		fmt.Printf("%s: %d packets, dropped %d\n", s.Name, s.Packets, s.Dropped)
	}
	fmt.Printf("frames lost: %d\n", report.Frames.Lost)
	// Output:
	// left: received 1000, forwarded 1000, transmitted 0
	// right: received 0, forwarded 0, transmitted 1000
	// parse: 1000 packets, dropped 0
	// patch: 1000 packets, dropped 0
	// frames lost: 0
}

// A program that runs the switch of a file on network interfaces until SIGINT. It answers
// "weir ctl" at the control socket.
func ExampleNode_Run() {
	const file = "switch.toml"
	c, err := config.Load(file)
	if err != nil {
		log.Fatal(err)
	}
	n, err := node.New(c, node.Options{File: file})
	if err != nil {
		log.Fatal(err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := n.Run(ctx); err != nil {
		log.Fatal(err)
	}
	fmt.Println("forwarded", n.Report().Forwarded, "packets")
}
