package replay_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/weirswitch/weir/node/replay"
)

// A capture passes the stages parse and patch, and leaves by the other port.
func Example() {
	folder, err := os.MkdirTemp("", "replay-")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(folder)
	r, err := replay.New(replay.Config{
		Switch: replay.DefaultSwitch("parse", "patch"),
		In:     map[string]string{"p0": "../../docs/example.pcap"},
		Out:    map[string]string{"p1": filepath.Join(folder, "out.pcap")},
	})
	if err != nil {
		log.Fatal(err)
	}
	report, err := r.Run(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("received", report.Received, "forwarded", report.Forwarded, "dropped", report.DroppedTotal())
	for _, s := range report.Stages {
		fmt.Println(s.Name, s.Packets)
	}
	for _, p := range report.Ports {
		fmt.Println(p.Name, "transmitted", p.Transmitted)
	}
	// Output:
	// received 12 forwarded 12 dropped 0
	// parse 12
	// patch 12
	// p0 transmitted 0
	// p1 transmitted 12
}
