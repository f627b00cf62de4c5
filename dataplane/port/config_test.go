package port

import (
	"strings"
	"testing"
)

func TestDefaultsAreValid(t *testing.T) {
	c := DefaultConfig()
	c.Interface = "eth0"
	if err := c.Validate(); err != nil {
		t.Error(err)
	}
	d := DefaultDataplaneConfig()
	if err := d.Validate(); err != nil {
		t.Error(err)
	}
}

// TestConfigFaults changes one thing of a good configuration at a time: the
// one error names the key and how to mend it.
func TestConfigFaults(t *testing.T) {
	tests := []struct {
		change func(*Config)
		want   string
	}{
		{func(c *Config) { c.Interface = "" }, "interface: missing: name "},
		{func(c *Config) { c.Driver = "dpdk" }, "driver: \"dpdk\": choose \"xsk\", \"asavie\", \"vhost\", \"memif\", \"tap\", \"tunnel\", \"vlan\", \"irb\" or \"bond\""},
		{func(c *Config) { c.Socket = "/run/vm1" }, "socket: an interface has none: remove it, or use driver = \"vhost\" or \"memif\""},
		{func(c *Config) { c.ID = 1 }, "id: the driver xsk has none: remove it, or use driver = \"memif\""},

		{func(c *Config) { c.Queues = -1 }, "queues: -1: choose 1 to 256"},
		{func(c *Config) { c.Queues = 257 }, "queues: 257"},
		{func(c *Config) { c.Mode = "driver" }, "mode: XDP mode \"driver\": want auto, native or generic"},
		{func(c *Config) { c.RSS = "toeplitz" }, "rss: \"toeplitz\": choose \"keep\" or \"symmetric\""},
		{func(c *Config) { c.TXBudget = 31 }, "tx_budget: 31: choose 32"},
		{func(c *Config) { c.Keep = []string{"arp", "tcp/0"} }, "keep: keep entry \"tcp/0\": want a number"},
		{func(c *Config) { c.Driver, c.Keep = "asavie", []string{"arp"} }, "keep: the driver asavie has no keep list: use "},
		{func(c *Config) { c.RateBits = 7999 }, "rate_bits: 7999: choose 8000 to 1000000000000 bits per second, or 0"},
		{func(c *Config) { c.QueuePackets = 100 }, "queue_packets: 100: choose a power of two from 64 to 65536, or 0"},
		{func(c *Config) { c.Optional = true }, "queues: 0, but an interface that is not there cannot be asked: say "},
		{func(c *Config) { c.Driver, c.Optional, c.Queues = "asavie", true, 1 }, "optional: the driver asavie cannot wait "},
		{func(c *Config) { c.Driver, c.Jumbo = "asavie", true }, "jumbo: the driver asavie has no multi-buffer: use "},
	}
	for _, tt := range tests {
		c := DefaultConfig()
		c.Name, c.Interface = "p0", "eth0"
		tt.change(&c)
		checkFault(t, c.Validate(), tt.want)
	}
}

// TestVhostConfigFaults is the same for the port of a virtual machine, which takes no key of an interface.
func TestVhostConfigFaults(t *testing.T) {
	good := DefaultConfig()
	good.Name, good.Driver, good.Socket, good.Queues, good.Mode = "vm1", DriverVhost, "/run/weir/vm1.sock", 2, ModeClient
	if err := good.Validate(); err != nil {
		t.Error(err)
	}
	tests := []struct {
		change func(*Config)
		want   string
	}{
		{func(c *Config) { c.Socket = "" }, "socket: missing: name the path of the Unix socket"},
		{func(c *Config) { c.Socket = strings.Repeat("a", 108) }, "socket: 108 bytes: the kernel takes paths of up to 107"},
		{func(c *Config) { c.Mode = "native" }, "mode: \"native\": choose \"server\" or \"client\""},
		{func(c *Config) { c.Queues = 65 }, "queues: 65: choose 1 to 64, or 0 for 1"},
		{func(c *Config) { c.Interface = "eth0" }, "interface: the driver vhost has no interface: remove it"},
		{func(c *Config) { c.Jumbo = true }, "jumbo: the driver vhost has no interface"},
		{func(c *Config) { c.Keep = []string{"arp"} }, "keep: the driver vhost has no interface"},
		{func(c *Config) { c.RSS = RSSSymmetric }, "rss: the driver vhost has no interface"},
		{func(c *Config) { c.RateBits = 7999 }, "rate_bits: 7999: choose 8000"},
		{func(c *Config) { c.SecretFile = "secret" }, "secret_file: the driver vhost has none"},
		{func(c *Config) { c.Driver, c.ID = DriverMemif, -1 }, "id: -1: choose 0 to 4294967295"},
		{func(c *Config) { c.Driver, c.RingSize = DriverMemif, 1000 }, "ring_size: 1000: choose a power of two from 2 to 16384"},
		{func(c *Config) { c.Driver, c.Interface = DriverMemif, "eth0" }, "interface: the driver memif has no interface"},
	}
	for _, tt := range tests {
		c := good
		tt.change(&c)
		checkFault(t, c.Validate(), tt.want)
	}
}

func TestDataplaneConfigFaults(t *testing.T) {
	tests := []struct {
		change func(*DataplaneConfig)
		want   string
	}{
		{func(c *DataplaneConfig) { c.Frames = -1 }, "frames: -1: choose"},
		{func(c *DataplaneConfig) { c.FrameSize = 3000 }, "frame_size: 3000: choose 2048 or 4096, or 0 for what the ports need"},
		{func(c *DataplaneConfig) { c.RXRing = 100 }, "rx_ring: 100: choose a power of two from 64"},
		{func(c *DataplaneConfig) { c.TXRing = 32 }, "tx_ring: 32"},
		{func(c *DataplaneConfig) { c.FillRing = 0 }, "fill_ring: 0"},
		{func(c *DataplaneConfig) { c.CompletionRing = 1 << 17 }, "completion_ring: 131072"},
		{func(c *DataplaneConfig) { c.CompletionRing = 1024 }, "completion_ring: 1024 is less than tx_ring = 2048"},
		{func(c *DataplaneConfig) { c.Copy = "zerocopy" }, "copy: AF_XDP mode \"zerocopy\": want auto, zero-copy or copy"},
		{func(c *DataplaneConfig) { c.Timestamps = "device" }, "timestamps: \"device\": choose \"batch\", \"xdp\", \"hardware\" or \"auto\""},
	}
	for _, tt := range tests {
		c := DefaultDataplaneConfig()
		tt.change(&c)
		checkFault(t, c.Validate(), tt.want)
	}
}

func checkFault(t *testing.T, err error, want string) {
	t.Helper()
	if err == nil {
		t.Errorf("no error, want %q", want)
		return
	}
	if got := err.Error(); !strings.HasPrefix(got, want) || strings.Contains(got, "\n") {
		t.Errorf("got %q, want one fault beginning with %q", got, want)
	}
}

// TestFaultsAreJoined: several faults are reported at once.
func TestFaultsAreJoined(t *testing.T) {
	c := Config{Driver: "x", Mode: "y", RSS: "r", Queues: -1, TXBudget: 1, Keep: []string{"z"}}
	if n := strings.Count(c.Validate().Error(), "\n") + 1; n != 7 {
		t.Errorf("%d faults, want 7: %v", n, c.Validate())
	}
}

func TestFrames(t *testing.T) {
	d := DefaultDataplaneConfig()
	if got, want := d.FramesFor(2, 0, 1), 2*(2048+2048)+2048; got != want {
		t.Errorf("computed %d frames, want %d", got, want)
	}
	d.Frames = 5000
	if got := d.FramesFor(2, 0, 1); got != 5000 {
		t.Errorf("%d frames, want those configured", got)
	}
}

// TestCheckFrames knows when the last queue would get no frame.
func TestCheckFrames(t *testing.T) {
	c := DefaultDataplaneConfig()
	for _, test := range []struct {
		frames, queues, held int
		want                 string
	}{
		{0, 1000, 1000, ""},
		{4096, 2, 0, ""},
		{4596, 2, 500, ""},
		{4595, 2, 500, "frames: 4595 cannot fill the fill rings of 2 queues while 500 frames wait in queue_packets of ports: choose 4596 or more"},
		{4095, 2, 0, "frames: 4095 cannot fill the fill rings of 2 queues: choose 4096 or more"},
	} {
		c.Frames = test.frames
		err := c.CheckFrames(test.queues, test.held)
		if test.want == "" && err != nil {
			t.Errorf("%d frames for %d queues: %v", test.frames, test.queues, err)
		} else if test.want != "" {
			checkFault(t, err, test.want)
		}
	}
}
