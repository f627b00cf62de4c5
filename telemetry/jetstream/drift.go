package jetstream

import (
	"fmt"
	"strings"

	"github.com/nats-io/nats.go/jetstream"
)

// Drift lists what of a stream is not as it should be, each with both values; empty: nothing. Who may change a stream can
// have it keep little, or nothing any more, without a word to those who publish and read.
func (c StreamConfig) Drift(is jetstream.StreamConfig) []string {
	want := c.config()
	var list []string
	differ := func(key string, is, want any) {
		if fmt.Sprint(is) != fmt.Sprint(want) {
			list = append(list, fmt.Sprintf("%s is %v, not %v", key, is, want))
		}
	}
	if is.Sealed {
		list = append(list, "it is sealed, and takes no record any more: end the collector and remove or rename its folder, or delete the stream")
	}
	differ("subjects", strings.Join(is.Subjects, " "), strings.Join(want.Subjects, " "))
	differ("retention", is.Retention, want.Retention)
	differ("discard", is.Discard, want.Discard)
	differ("storage", is.Storage, want.Storage)
	differ("max_age", is.MaxAge, want.MaxAge)
	differ("max_bytes", is.MaxBytes, want.MaxBytes)
	differ("max_msgs", unbounded(is.MaxMsgs), int64(-1))
	differ("max_msgs_per_subject", unbounded(is.MaxMsgsPerSubject), int64(-1))
	differ("max_msg_size", unbounded(int64(is.MaxMsgSize)), int64(-1))
	differ("max_consumers", unbounded(int64(is.MaxConsumers)), int64(-1))
	differ("num_replicas", is.Replicas, want.Replicas)
	differ("duplicate_window", is.Duplicates, want.Duplicates)
	differ("deny_delete", is.DenyDelete, true)
	differ("deny_purge", is.DenyPurge, true)
	differ("allow_rollup_hdrs", is.AllowRollup, false)
	differ("no_ack", is.NoAck, false)
	differ("mirror", is.Mirror != nil, false)
	differ("sources", len(is.Sources), 0)
	differ("republish", is.RePublish != nil, false)
	differ("subject_transform", is.SubjectTransform != nil, false)
	return list
}

// unbounded is -1 for any value without a bound.
func unbounded(n int64) int64 {
	if n <= 0 {
		return -1
	}
	return n
}
