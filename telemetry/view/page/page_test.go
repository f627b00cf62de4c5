package page

import "testing"

func TestLooks(t *testing.T) {
	server := newWorld(t, defaultScene()).serve()
	b := browser(t)
	for _, l := range []look{wide, narrow} {
		for _, dark := range []bool{false, true} {
			l.dark = dark
			t.Run(l.String(), func(t *testing.T) {
				p := open(t, b, server.URL, l)
				p.shoot("all-"+l.String(), true)
				p.quiet()
			})
		}
	}
}
