package jetstream

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// StreamConfig is what the stream keeps, and for how long.
type StreamConfig struct {
	// Age is how long a record is kept; 0: for ever.
	Age time.Duration
	// Bytes bounds the stream's size on each server; beyond, the oldest records go. 0: no bound.
	Bytes int64
	// Replicas is on how many servers of a cluster each record is, 1 to 5; 0: 1.
	Replicas int
	// Duplicates is for how long a record published again is recognised; 0: DefaultDuplicates.
	Duplicates time.Duration
}

// DefaultDuplicates is longer than a switch takes to start again, or a cluster to
// find a new leader. Servers keep the ids of all records of so much time in memory.
const DefaultDuplicates = 2 * time.Minute

// EnsureStream makes the stream, or makes the one that is there as it should be. A client that may not change
// it gets it as it is, if it is there: see StreamConfig.Drift.
func EnsureStream(ctx context.Context, js jetstream.JetStream, c StreamConfig) (jetstream.Stream, error) {
	config := c.config()
	stream, err := js.Stream(ctx, Stream)
	if err == nil && len(c.Drift(stream.CachedInfo().Config)) == 0 {
		return stream, nil
	}
	if err != nil && !errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil, streamError(err, config.Replicas)
	}
	there := stream
	change, cancel := context.WithTimeout(ctx, changeWait)
	defer cancel()
	stream, err = js.CreateOrUpdateStream(change, config)
	switch {
	case err == nil:
		return stream, nil
	case there != nil && (change.Err() != nil || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, nats.ErrTimeout) || there.CachedInfo().Config.Sealed):
		return there, nil // servers do not answer what a client may not ask
	}
	return nil, streamError(err, config.Replicas)
}

// changeWait is how long an answer to a change of the stream may take, of the time for making sure of it.
const changeWait = 2 * time.Second

// config is what the stream is made of.
func (c StreamConfig) config() jetstream.StreamConfig {
	duplicates := c.Duplicates
	if duplicates <= 0 {
		duplicates = DefaultDuplicates
	}
	if c.Age > 0 {
		duplicates = min(duplicates, c.Age) // servers refuse longer ones
	}
	config := jetstream.StreamConfig{
		Name:        Stream,
		Description: "records of what Weir's switches measured",
		Subjects:    []string{Subjects},
		Retention:   jetstream.LimitsPolicy,
		Discard:     jetstream.DiscardOld,
		Storage:     jetstream.FileStorage,
		MaxAge:      c.Age,
		MaxBytes:    c.Bytes,
		Replicas:    max(c.Replicas, 1),
		Duplicates:  duplicates,
		AllowDirect: true,
		DenyDelete:  true,
		DenyPurge:   true,
	}
	if config.MaxBytes <= 0 {
		config.MaxBytes = -1
	}
	return config
}

func streamError(err error, replicas int) error {
	var api *jetstream.APIError
	switch {
	case errors.Is(err, jetstream.ErrJetStreamNotEnabled), errors.Is(err, jetstream.ErrJetStreamNotEnabledForAccount):
		return fmt.Errorf("make stream %s: %w: set jetstream in the servers' configuration, and for this account", Stream, err)
	case errors.As(err, &api) && api.ErrorCode == 10047:
		return fmt.Errorf("make stream %s: %w: lower the bytes that it may keep, or raise max_file_store of the servers", Stream, err)
	case errors.As(err, &api) && api.ErrorCode == 10074 || errors.As(err, &api) && api.ErrorCode == 10005:
		return fmt.Errorf("make stream %s on %d servers: %w: start as many, or lower the replicas", Stream, replicas, err)
	}
	return fmt.Errorf("make stream %s: %w", Stream, err)
}
