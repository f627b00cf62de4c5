package xsk

import (
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestConfigValidate(t *testing.T) {
	for _, test := range []struct {
		name   string
		change func(*Config)
		faults int
	}{
		{"default", func(*Config) {}, 0},
		{"smallest rings", func(c *Config) { *c = Config{FillSize: 1, RXSize: 1, TXSize: 1, CompletionSize: 1} }, 0},
		{"zero value", func(c *Config) { *c = Config{} }, 4},
		{"not a power of two", func(c *Config) { c.RXSize = 1000 }, 1},
		{"negative", func(c *Config) { c.FillSize = -2048 }, 1},
		{"too large", func(c *Config) { c.CompletionSize = 1 << 21 }, 1},
		{"mode", func(c *Config) { c.Mode = 3 }, 1},
		{"least budget", func(c *Config) { c.TXBudget = 32 }, 0},
		{"budget of the kernel", func(c *Config) { c.TXBudget = 0 }, 0},
		{"small budget", func(c *Config) { c.TXBudget = 31 }, 1},
		{"budget above the ring", func(c *Config) { c.TXBudget = 4096 }, 1},
		{"busy poll", func(c *Config) { c.BusyPoll = -1 }, 1},
		{"three at once", func(c *Config) { c.BusyPollBudget, c.Mode, c.FillSize = -1, 9, 3 }, 3},
	} {
		config := DefaultConfig()
		test.change(&config)
		err := config.Validate()
		faults := 0
		if err != nil {
			faults = strings.Count(err.Error(), "\n") + 1
		}
		if faults != test.faults {
			t.Errorf("%s: %d faults, want %d: %v", test.name, faults, test.faults, err)
		}
	}
}

func TestNewUMEM(t *testing.T) {
	page := os.Getpagesize()
	memory, err := unix.Mmap(-1, 0, 16*page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Munmap(memory)
	for _, test := range []struct {
		name   string
		memory []byte
		config UMEMConfig
		says   string
	}{
		{"pages", memory, UMEMConfig{FrameSize: page}, ""},
		{"half pages", memory, UMEMConfig{FrameSize: 2048, Headroom: 128}, ""},
		{"small frames", memory, UMEMConfig{FrameSize: 1024}, "frame size 1024"},
		{"frames above a page", memory, UMEMConfig{FrameSize: 2 * page}, "page size"},
		{"no power of two", memory, UMEMConfig{FrameSize: 3000}, "frame size 3000"},
		{"no room", memory, UMEMConfig{FrameSize: 2048, Headroom: 2048 - 256}, "headroom"},
		{"negative headroom", memory, UMEMConfig{FrameSize: 2048, Headroom: -1}, "headroom"},
		{"a rest", memory[:2*page+100], UMEMConfig{FrameSize: 2048}, "multiple"},
		{"nothing", nil, UMEMConfig{FrameSize: 2048}, "multiple"},
		{"not at a page", memory[2048 : 2048+4096], UMEMConfig{FrameSize: 2048}, "page"},
	} {
		u, err := NewUMEM(test.memory, test.config)
		if test.says != "" {
			if err == nil || !strings.Contains(err.Error(), test.says) {
				t.Errorf("%s: error %v", test.name, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", test.name, err)
			continue
		}
		size := test.config.FrameSize
		if u.Frames() != len(test.memory)/size || u.FrameSize() != size || u.PacketRoom() != size-256-test.config.Headroom {
			t.Errorf("%s: %d frames of %d with room for %d", test.name, u.Frames(), u.FrameSize(), u.PacketRoom())
		}
		addr := uint64(3*size + 300)
		if u.Frame(addr) != uint64(3*size) {
			t.Errorf("%s: frame of %d is %d", test.name, addr, u.Frame(addr))
		}
		b := u.Bytes(Desc{Addr: addr, Len: 60})
		if &b[0] != &test.memory[addr] || len(b) != 60 || cap(b) != size-300 {
			t.Errorf("%s: bytes of length %d and capacity %d", test.name, len(b), cap(b))
		}
	}
}

func TestModeNames(t *testing.T) {
	for _, mode := range []Mode{Auto, ZeroCopy, Copy} {
		if got, err := ParseMode(mode.String()); err != nil || got != mode {
			t.Errorf("%v: %v, %v", mode, got, err)
		}
	}
	if _, err := ParseMode("zerocopy"); err == nil {
		t.Error("zerocopy is accepted")
	}
	g := Granted{ZeroCopy: true, NeedWakeup: true, MultiBuffer: true, TXBudget: 64, BusyPoll: true}
	if got, want := g.String(), "zero-copy, need_wakeup, multi-buffer, TX budget 64, busy poll"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got := (Granted{}).String(); got != "copy" {
		t.Errorf("%q", got)
	}
}

func TestKickResults(t *testing.T) {
	for errno, want := range map[unix.Errno]string{
		0: "done", unix.EAGAIN: "again", unix.EBUSY: "dropped", unix.ENOBUFS: "no memory", unix.ENETDOWN: "down", unix.ENXIO: "gone", unix.EIO: "failed",
	} {
		if got := kickResult(errno).String(); got != want {
			t.Errorf("%v: %s, want %s", errno, got, want)
		}
	}
}
