package lab

import (
	"strings"
	"testing"
	"time"
)

const twoHosts = "name = \"l\"\n[[host]]\nname = \"h1\"\naddresses = [\"10.0.0.1/24\"]\n[[host]]\nname = \"h2\"\naddresses = [\"10.0.0.2/24\"]\n[[link]]\nendpoints = [\"h1\", \"h2\"]\n"

// TestLinkKeys: a link that is not perfect becomes two, with a relay between them; the others stay as they are.
func TestLinkKeys(t *testing.T) {
	c, err := Parse(twoHosts+"delay = \"20ms\"\njitter = \"5ms\"\nloss = 0.01\nrate = \"10Mbps\"\n", "x")
	if err != nil {
		t.Fatal(err)
	}
	if len(c.Links) != 2 || len(c.Relays) != 1 || c.Links[0].Endpoints[1] != "wire1:a" || c.Links[1].Endpoints[0] != "wire1:b" || c.Links[1].Endpoints[1] != "h2" {
		t.Fatalf("%+v, %+v", c.Links, c.Relays)
	}
	r := c.Relays[0]
	if r.rest.Delay != 20*time.Millisecond || r.rest.Jitter != 5*time.Millisecond || r.rest.Drop != 0.01 || r.rate != 10_000_000 {
		t.Errorf("%+v", r)
	}
	if jitters, drops := c.relaysChange(); !jitters || !drops {
		t.Errorf("jitters %v, drops %v", jitters, drops)
	}
	if drawing := c.drawing(80); !strings.Contains(drawing, "20ms +-5ms loss 1 % 10Mbps") {
		t.Error(drawing)
	}
	if c, err = Parse(twoHosts, "x"); err != nil || len(c.Links) != 1 || len(c.Relays) != 0 {
		t.Errorf("a perfect link: %+v, %v", c, err)
	}
	_, err = Parse(twoHosts+"delay = \"1m\"\njitter = \"2m\"\nloss = 2.0\nrate = \"10kbps\"\n", "x")
	for _, want := range []string{"link[0].delay: 1m0s: choose 0s to 10s", "link[0].jitter: 2m0s: choose 0s up to the delay", "link[0].loss: 2: choose a share from 0 to 1", "link[0].rate: 10kbps: choose 50kbps or more"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in %v", want, err)
		}
	}
}

// TestNothingArrives: a load of which nothing arrives stops, and says so; one of which a little does goes on.
func TestNothingArrives(t *testing.T) {
	received := uint64(0)
	w := newWindow(10, 1_000_000_000, 8, func() uint64 { return received })
	w.patience = 3
	now := time.Now()
	sent := uint64(10)
	for range 3 {
		w.room(sent, now)
		now = now.Add(windowPatience + time.Millisecond)
		w.room(sent, now)
		sent += 10
	}
	if w.gaveUp < w.patience {
		t.Errorf("it gave up %d times", w.gaveUp)
	}
	received++
	if w.room(sent, now); w.gaveUp != 0 {
		t.Errorf("an arrival leaves %d", w.gaveUp)
	}
}
