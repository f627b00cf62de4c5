package page

import (
	"net/url"
	"testing"

	"github.com/weirswitch/weir/telemetry/query"
)

func TestLooks(t *testing.T) {
	server := newWorld(t, defaultScene()).serve()
	b := browser(t)
	for _, l := range []look{wide, narrow} {
		for _, dark := range []bool{false, true} {
			l.dark = dark
			t.Run(l.String(), func(t *testing.T) {
				p := open(t, b, server.URL+"/#flow="+url.QueryEscape(query.FormatKey(key(1))), l)
				p.shoot("all-"+l.String(), true)
				p.quiet()
			})
		}
	}
}
