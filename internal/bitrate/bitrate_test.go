package bitrate

import "testing"

func TestParse(t *testing.T) {
	for text, want := range map[string]Rate{
		"0": 0, "9600": 9600, "10Gbps": 10_000_000_000, "2.5 Gbit/s": 2_500_000_000, "100M": 100_000_000, "64kbps": 64_000, "64Kbit": 64_000, "10mbps": 10_000_000, "2.5gbit/s": 2_500_000_000, "1t": 1_000_000_000_000, "1Tb/s": 1_000_000_000_000,
	} {
		got, err := Parse(text)
		if err != nil || got != want {
			t.Errorf("%q: %d, %v, want %d", text, got, err, want)
		}
		if again, err := Parse(got.String()); err != nil || again != got {
			t.Errorf("%q is %s, which reads as %d, %v", text, got, again, err)
		}
	}
	for _, text := range []string{"", "fast", "-1Gbps", "10GBps!", "1e300", "NaN", "Gbps", "50%"} {
		if v, err := Parse(text); err == nil {
			t.Errorf("%q is %d", text, v)
		}
	}
}
