package service_test

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/weirswitch/weir/config"
	"github.com/weirswitch/weir/telemetry/collect/service"
	"github.com/weirswitch/weir/telemetry/query"
)

// A collector with its own NATS server, on ports that the kernel chooses, answers a question: no switch has sent
// anything yet.
func Example() {
	data, err := os.MkdirTemp("", "collect-")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(data)
	c := config.DefaultCollect()
	c.Collect.Name, c.Collect.Data = "example", data
	c.Collect.Listen, c.NATS.Listen = "127.0.0.1:0", "127.0.0.1:0"

	ready := make(chan struct{})
	collector, err := service.New(c, service.Options{Ready: func() error { close(ready); return nil }})
	if err != nil {
		log.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- collector.Run(ctx) }()
	<-ready
	_, err = collector.Ask(ctx, &query.Question{Kind: query.KindVolume})
	fmt.Println(err)
	stop()
	fmt.Println(<-ended)
	// Output:
	// no records of a sample in the window: add the stage oblivious to the switches' graphs, or ask about another window
	// <nil>
}
