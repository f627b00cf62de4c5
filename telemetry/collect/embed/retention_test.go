package embed

import (
	"strings"
	"syscall"
	"testing"

	"github.com/weirswitch/weir/telemetry/collect"
	"github.com/weirswitch/weir/telemetry/record"
)

// TestLowerRetention starts anew with a smaller bound than the stream had: the newest records stay.
func TestLowerRetention(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	config := testConfig(t, folder)
	config.Retention.Bytes = 10 << 30
	s := start(t, config)
	c, stop := collecting(t, s, collect.DefaultPartitions(), &kept{})
	<-c.Ready()
	send(t, connect(t, s), epochs(record.LDS, 3, 100), make([]byte, 1<<20))
	stop()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}

	config.Retention.Bytes = 64 << 20
	s = start(t, config)
	defer s.Close()
	c, stop = collecting(t, s, collect.DefaultPartitions(), &kept{})
	defer stop()
	eventually(t, "the collector reads", func() bool { return c.Status().Connected })
	<-c.Ready()
	if st := c.Status(); st.LastSequence != 100 || st.Messages < 50 || st.Bytes > 64<<20 {
		t.Errorf("%+v", st)
	}
}

// TestSmallDisk fills a disk that is smaller than what may be kept, and starts anew with a bound that it has
// room for: records are taken again.
func TestSmallDisk(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	if err := syscall.Mount("weir", folder, "tmpfs", 0, "size=144m"); err != nil {
		t.Skipf("a small file system to fill needs root: %v", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(folder, syscall.MNT_DETACH) })
	config := testConfig(t, folder)
	config.Data = folder
	if why := config.tooSmall(); !strings.Contains(why, "lower it") {
		t.Errorf("the disk is called large enough: %q", why)
	}
	s := start(t, config)
	c, stop := collecting(t, s, collect.DefaultPartitions(), &kept{})
	<-c.Ready()
	if acked, refused := fill(t, s, connect(t, s)); acked == 0 || refused == nil {
		t.Fatal("the disk was not full")
	}
	stop()
	if err := s.Close(); err != nil {
		t.Log(err)
	}

	config.Retention.Bytes = 64 << 20
	if why := config.tooSmall(); why != "" {
		t.Error(why)
	}
	s = start(t, config)
	defer s.Close()
	all := &kept{}
	c, stop = collecting(t, s, collect.DefaultPartitions(), all)
	defer stop()
	eventually(t, "the stream is read", func() bool { return c.Status().Connected && c.Status().Ready })
	before := all.len()
	nc := connect(t, s)
	more := epochs(record.LDS, 4, 30)
	eventually(t, "records are taken", func() bool { return acknowledged(t, nc, more[0]) })
	send(t, nc, more[1:], nil)
	eventually(t, "new records are applied", func() bool { return all.len() == before+len(more) })
}
