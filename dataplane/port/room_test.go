package port

import "testing"

// TestCheckMTU: an MTU beyond a frame is refused with what makes room for it; larger frames are no remedy where they are too short, too.
func TestCheckMTU(t *testing.T) {
	for _, tt := range []struct {
		c          Config
		mtu, frame int
		want       string
	}{
		{Config{Driver: DriverXSK, Interface: "p0"}, 1774, 2048, ""},
		{Config{Driver: DriverXSK, Interface: "p0"}, 1775, 2048,
			"the MTU of p0 is 1775, but a frame holds a packet of 1792 bytes: set jumbo = true, dataplane.frame_size = 4096 or the MTU to 1774"},
		{Config{Driver: DriverXSK, Interface: "p0"}, 3822, 4096, ""},
		{Config{Driver: DriverXSK, Interface: "p0"}, 9000, 2048,
			"the MTU of p0 is 9000, but a frame holds a packet of 1792 bytes: set jumbo = true or the MTU to 1774"},
		{Config{Driver: DriverXSK, Interface: "p0"}, 3823, 4096,
			"the MTU of p0 is 3823, but a frame holds a packet of 3840 bytes: set jumbo = true or the MTU to 3822"},
		{Config{Driver: DriverXSK, Interface: "p0", Jumbo: true}, 9000, 2048, ""},
		{Config{Driver: DriverAsavie, Interface: "p0"}, 9000, 4096,
			"the MTU of p0 is 9000, but a frame holds a packet of 3840 bytes: set the MTU to 3822"},
		{Config{Driver: DriverTap, Interface: "t0"}, 2000, 2048,
			"the MTU of t0 is to be 2000, but a frame holds a packet of 1792 bytes: set dataplane.frame_size = 4096 or mtu = 1774"},
	} {
		got := ""
		if err := CheckMTU(&tt.c, tt.mtu, tt.frame); err != nil {
			got = err.Error()
		}
		if got != tt.want {
			t.Errorf("got  %s\nwant %s", got, tt.want)
		}
	}
	const want = "the MTU was set to 9000, but a frame holds a packet of 3840 bytes: longer ones are dropped; set jumbo = true or the MTU to 3822"
	if got := cutsMTU(DriverXSK, 9000, room(4096)); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}
