package traffic

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// countingSink reports what arrives returns after so long.
type countingSink struct {
	began   time.Time
	arrives func(after time.Duration) Report
}

func (s *countingSink) Name() string { return "counting" }
func (s *countingSink) Reset() error { return nil }
func (s *countingSink) Close() error { return nil }

func (s *countingSink) Report() (*Report, error) {
	r := s.arrives(time.Since(s.began))
	return &r, nil
}

// TestReceiveIdle: silence ends receiving whether or not a packet of the run came before; foreign packets are silence, too.
func TestReceiveIdle(t *testing.T) {
	for _, tt := range []struct {
		name    string
		arrives func(after time.Duration) Report
		want    time.Duration
	}{
		{"nothing", func(time.Duration) Report { return Report{} }, 2 * time.Second},
		{"foreign packets", func(after time.Duration) Report { return Report{Foreign: uint64(after)} }, 2 * time.Second},
		{"a second of packets", func(after time.Duration) Report { return Report{Packets: uint64(min(after, time.Second))} }, 3 * time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { // its clock is not the machine's
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				s := &countingSink{time.Now(), tt.arrives}
				_, err := Receive(ctx, s, End{Idle: 2 * time.Second})
				if took := time.Since(s.began); err != nil || took != tt.want {
					t.Errorf("%v, after %v, want %v", err, took, tt.want)
				}
			})
		})
	}
}
