package limiter

import (
	"math"
	"math/rand/v2"
	"sync"
	"testing"
)

const second = int64(1e9)

// TestBounds offers more than the limit at random times and compares what
// passes with the rate: never more than the burst and what the time gives, and
// less by no more than a token, and a nanosecond of rounding for each call.
func TestBounds(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, rate := range []uint64{1, 3, 10, 999, 1_000_003, 77_777_777, 125_000_000_000} {
		var k Bucket
		burst := max(rate/10, 10)
		k.Set(rate, burst)
		now := 1_800_000_000 * second
		begin, passed, calls := now, k.Take(now, burst+1), uint64(1)
		if passed != burst {
			t.Errorf("rate %d: %d at once, want %d", rate, passed, burst)
		}
		for range 20_000 {
			now += random.Int64N(2*second/int64(rate) + 100)
			// More than the bucket can hold, of which some comes back: it is always emptied.
			got := k.Take(now, burst+rate)
			back := random.Uint64N(got + 1)
			k.GiveBack(got, back)
			passed += got - back + k.Take(now, back)
			calls += 3
			given := burst + uint64(float64(now-begin)*float64(rate)/1e9)
			slack := 1 + uint64(float64(calls)*float64(rate)/1e9)
			if passed > given+1 || passed+slack+1 < given {
				t.Fatalf("rate %d: %d passed in %d ns, want %d", rate, passed, now-begin, given)
			}
		}
	}
}

// TestClockSteps: a step never stops a bucket, and never gives more than a burst.
func TestClockSteps(t *testing.T) {
	var k Bucket
	k.Set(1000, 100)
	for _, step := range []struct {
		at   int64
		want uint64
	}{
		{100 * second, 100}, {100 * second, 0}, {100*second + 5e6, 5}, {100*second - 1e6, 0},
		{50 * second, 0}, {50*second + 20e6, 20}, {1e9 * second, 100}, {1, 0}, {10e6 + 1, 10}, {math.MaxInt64 - second, 100},
	} {
		if got := k.Take(step.at, 1000); got != step.want {
			t.Errorf("at %d: %d, want %d", step.at, got, step.want)
		}
	}
}

// TestShared: workers that take at once share one limit.
func TestShared(t *testing.T) {
	var k Bucket
	k.Set(1_000_000, 100_000)
	var passed [4]uint64
	var all sync.WaitGroup
	for w := range passed {
		all.Go(func() {
			for i := range int64(10_000) {
				passed[w] += k.Take(100*second+i*100, 3)
			}
		})
	}
	all.Wait()
	sum := passed[0] + passed[1] + passed[2] + passed[3]
	// 100,000 at once, and one per microsecond of the millisecond that passes.
	if sum > 100_000+1_000 || sum < 100_000 {
		t.Errorf("%d passed, want 100000 to 101000", sum)
	}
}

func TestUnlimited(t *testing.T) {
	var k Bucket
	k.GiveBack(5, 5)
	if got := k.Take(1, 12345); got != 12345 {
		t.Errorf("the zero bucket gave %d", got)
	}
}

// TestResume: a bucket goes on where another one was, with the rate of its own, and whatever it is given, it has a burst at most, and is empty for skew at most.
func TestResume(t *testing.T) {
	now := 100 * second
	var was Bucket
	was.Set(1000, 100)
	was.Take(now, 100)
	now += 40e6 // 40 tokens
	for _, c := range []struct {
		rate, want uint64
		level      int64
	}{
		{1000, 40, was.Level()}, {2000, 80, was.Level()}, {1000, 100, math.MinInt64}, {1000, 100, new(Bucket).Level()}, {1000, 0, now}, {1000, 0, now + 1},
		{1000, 0, math.MaxInt64},
	} {
		var k Bucket
		k.Set(c.rate, 100)
		k.Resume(c.level)
		k.Resume(math.MinInt64) // another queue of the port is fuller
		if got := k.Take(now, 1000); got != c.want {
			t.Errorf("rate %d, level %d: %d, want %d", c.rate, c.level, got, c.want)
		}
		if got := k.Take(now+skew+second, 1000); got != 100 {
			t.Errorf("rate %d, level %d: %d later, want a burst", c.rate, c.level, got)
		}
	}
}
