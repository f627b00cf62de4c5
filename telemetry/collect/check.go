package collect

import (
	"errors"
	"strconv"
	"strings"

	"github.com/weirswitch/weir/telemetry/jetstream"
	"github.com/weirswitch/weir/telemetry/record"
)

// check reads a message and says what is wrong with it; Applied: nothing, it is to
// be applied. The kind is that of the record, or of the subject if there is none.
// body aliases data.
func check(subject string, data []byte, held Mask) (h record.Header, body []byte, kind record.Kind, o Outcome) {
	h, body, rest, err := record.Decode(data)
	if errors.Is(err, record.ErrKey) {
		return h, nil, kindOf(subject), Unkeyed
	}
	if err != nil || len(rest) != 0 {
		return h, nil, kindOf(subject), Unreadable
	}
	kind = known(h.Kind)
	switch {
	case subject != jetstream.Subject(&h):
		return h, nil, kindOf(subject), Forged
	case h.Kind == record.PINT && h.Instance >= record.Partitions:
		return h, nil, kind, Unreadable
	case h.Kind == record.PINT && !held.Has(int(h.Instance)):
		return h, nil, kind, Foreign
	}
	return h, body, kind, Applied
}

// Check reads a message and says whether its record belongs into an archive of the collector of some partitions; Applied: it does.
func Check(subject string, data []byte, m Mask) (record.Header, Outcome) {
	h, _, _, o := check(subject, data, m)
	return h, o
}

// kindOf is the kind that a subject names.
func kindOf(subject string) record.Kind {
	tokens := strings.SplitN(subject, ".", 4)
	for _, k := range Kinds {
		if len(tokens) > 2 && tokens[2] == k.String() {
			return k
		}
	}
	return kindOther
}

func known(k record.Kind) record.Kind {
	for _, x := range Kinds {
		if x == k {
			return k
		}
	}
	return kindOther
}

// filters are the subjects that a collector reads: all, or all kinds and its
// partitions of PINT's.
func filters(held Mask) []string {
	if held == AllPartitions {
		return []string{jetstream.Subjects}
	}
	var list []string
	for _, k := range Kinds {
		if k != record.PINT {
			list = append(list, jetstream.Filter(k, 0))
		}
	}
	return append(list, digestFilters(held)...)
}

// wants reports whether a message is of what filters(held) asks for.
func (m Mask) wants(subject string) bool {
	if m == AllPartitions {
		return true
	}
	tokens := strings.SplitN(subject, ".", 5)
	if len(tokens) < 5 {
		return false
	}
	if kind := kindOf(subject); kind != record.PINT {
		return kind != kindOther && tokens[3] == "0"
	}
	n, err := strconv.Atoi(tokens[3])
	return err == nil && n >= 0 && n < record.Partitions && tokens[3] == strconv.Itoa(n) && m.Has(n)
}

// digestFilters are the subjects of partitions of PINT's.
func digestFilters(held Mask) (list []string) {
	for _, i := range held.List() {
		list = append(list, jetstream.Filter(record.PINT, i))
	}
	return list
}

// Filters are the subjects of a kind that the collector of some partitions archives: a set of collectors has each record there once. The
// collector of partition 0 archives what has no partitions. Owned are those of the kind.
func (m Mask) Filters(k record.Kind) (list []string, owned Mask) {
	switch {
	case k != record.PINT && m.Has(0):
		return []string{jetstream.Filter(k, 0)}, 1
	case k != record.PINT:
		return nil, 0
	case m == AllPartitions:
		return []string{jetstream.FilterKind(k)}, m
	}
	return digestFilters(m), m
}
