package traffic

import (
	"os"
	"runtime"
	"slices"
	"testing"
	"time"
)

func TestParseStat(t *testing.T) {
	cores := map[int]CPUTime{}
	total, err := parseStat([]byte("cpu  3 1 10 100 20 5 6 7 9 9\ncpu0 1 0 4 50 10 2 3 3 0 0\ncpu11 2 1 6 50 10 3 3 4 0 0\nintr 5\nctxt 7\n"), cores)
	must(t, err)
	const tick = 10 * time.Millisecond
	want := CPUTime{User: 4 * tick, System: 10 * tick, Idle: 120 * tick, IRQ: 5 * tick, Softirq: 6 * tick, Steal: 7 * tick}
	if total != want || len(cores) != 2 || cores[11].User != 3*tick {
		t.Errorf("got %+v, %+v", total, cores)
	}
	if got := total.busy(); got != 25*tick {
		t.Errorf("busy %v", got)
	}
	if got := total.PerPacket(1000); got != 250_000 {
		t.Errorf("%v ns per packet", got)
	}
	for _, bad := range []string{"", "intr 5\n", "cpu  1 2 3\n", "cpu  1 2 3 4 5 6 x 8\n", "cpux 1 2 3 4 5 6 7 8\n"} {
		if _, err := parseStat([]byte(bad), cores); err == nil {
			t.Errorf("%q was taken", bad)
		}
	}
}

func TestParseTaskStat(t *testing.T) {
	got, err := parseTaskStat([]byte("42 (a) b (c) S 1 2 3 4 5 6 7 8 9 10 250 50 0 0\n"))
	if err != nil || got.User != 2500*time.Millisecond || got.System != 500*time.Millisecond {
		t.Errorf("got %+v, %v", got, err)
	}
	for _, bad := range []string{"", "42 a S", "42 (a) S 1 2 3", "42 (a) S 1 2 3 4 5 6 7 8 9 10 x 50"} {
		if _, err := parseTaskStat([]byte(bad)); err == nil {
			t.Errorf("%q was taken", bad)
		}
	}
}

func TestReadCPU(t *testing.T) {
	threads, err := Threads(os.Getpid())
	must(t, err)
	if !slices.Contains(threads, os.Getpid()) {
		t.Fatalf("threads %v lack the first one", threads)
	}
	before, err := ReadCPU(os.Getpid())
	must(t, err)
	// Work until the kernel has noticed, however long that takes.
	var kept uint64
	for {
		for n := range uint64(10_000_000) {
			kept = mix64(n)
		}
		now, err := ReadCPU(os.Getpid())
		must(t, err)
		used := now.Since(before)
		if used.Tasks[os.Getpid()].User > 0 && used.Total.User > 0 {
			break
		}
	}
	runtime.KeepAlive(kept)
	if _, err := ReadCPU(1 << 30); err == nil {
		t.Error("a task that does not exist was read")
	}
}
