package api

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/weirswitch/weir/telemetry/query"
)

// TestClientOfTLS: a client that does not speak TLS to a collector that does is told so.
func TestClientOfTLS(t *testing.T) {
	s := httptest.NewTLSServer(http.NotFoundHandler())
	defer s.Close()
	c, err := NewClient(strings.Replace(s.URL, "https:", "http:", 1), ClientTLS{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Ask(t.Context(), &query.Question{Kind: query.KindVolume}); err == nil || !strings.Contains(err.Error(), "write https://") {
		t.Error(err)
	}
}
