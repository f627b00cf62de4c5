// Example asks a collector for the largest flows of the last minute, and where each went:
//
//	go run ./telemetry/view/api/example [URL of the collector]
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/weirswitch/weir/telemetry/query"
	"github.com/weirswitch/weir/telemetry/view/api"
)

func main() {
	url := api.DefaultURL
	if len(os.Args) > 1 {
		url = os.Args[1]
	}
	if err := run(url); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(url string) error {
	client, err := api.NewClient(url, api.ClientTLS{})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	answer, err := client.Ask(ctx, &query.Question{Kind: query.KindHeavyHitters, Theta: 0.01, Limit: 5, Last: time.Minute})
	if err != nil {
		return err
	}
	heavy := answer.(*query.HeavyHitters) // the type that the kind's documentation names
	fmt.Printf("of %.0f packets, from %s:\n", heavy.Volume.Value, heavy.Basis.String())
	for _, flow := range heavy.Flows {
		fmt.Printf("%s: %.0f packets (%.0f to %.0f), %s\n", flow.Flow, flow.Value, flow.Low, flow.High, way(ctx, client, flow.Flow))
	}
	return nil
}

// way asks where a flow went.
func way(ctx context.Context, client *api.Client, flow string) string {
	answer, err := client.Ask(ctx, &query.Question{Kind: query.KindPath, Flow: flow})
	if errors.Is(err, query.ErrNoRecords) {
		return "its path is not known" // no packet of it had a digest
	}
	if err != nil {
		return err.Error()
	}
	text := "by"
	for _, f := range answer.(*query.PathAnswer).Flows {
		for _, hop := range f.Hops {
			text += " " + hop.Switch
		}
	}
	return text
}
