package collect

import (
	"strings"
	"testing"
	"time"
)

// TestArchiveConfig: an archive that cannot be is refused by its key, and no secret is repeated.
func TestArchiveConfig(t *testing.T) {
	for _, url := range []string{
		"", "file:///var/lib/weir", "s3://bucket", "s3://bucket/a/b?region=eu-1", "s3://bucket?endpoint=http://127.0.0.1:9000&region=us-east-1",
	} {
		c := DefaultArchive()
		if c.URL = url; c.Validate() != nil {
			t.Errorf("%s: %v", url, c.Validate())
		}
	}
	for _, c := range []struct {
		change func(*Archive)
		want   string
	}{
		{func(c *Archive) { c.URL = "/var/lib/weir" }, "url: "},
		{func(c *Archive) { c.URL = "file://var/lib" }, "url: "},
		{func(c *Archive) { c.URL = "file:///" }, "url: "},
		{func(c *Archive) { c.URL = "s3://me:sesame@bucket" }, "url: has a name or a password"},
		{func(c *Archive) { c.URL = "s3://bucket?endpoint=ftp://x" }, "url: endpoint"},
		{func(c *Archive) { c.URL = "s3://bucket?key=x" }, "url: parameter"},
		{func(c *Archive) { c.URL = "gs://bucket" }, "url: "},
		{func(c *Archive) { c.Credentials = "/etc/keys" }, "url: is missing"},
		{func(c *Archive) { c.URL, c.Credentials = "file:///a", "/etc/keys" }, "credentials: is for s3"},
		{func(c *Archive) { c.URL, c.Credentials = "s3://a", "keys" }, "credentials: "},
		{func(c *Archive) { c.Age = 1 }, "age: "},
		{func(c *Archive) { c.Bytes = 1 }, "bytes: "},
		{func(c *Archive) { c.Flush = 0 }, "flush: "},
		{func(c *Archive) { c.Recent = 0 }, "recent: "},
		{func(c *Archive) { c.Rollups.Coarse = 7 * time.Hour }, "rollups.coarse: "},
		{func(c *Archive) { c.Rollups.Fine = 7 * time.Minute }, "rollups.fine: "},
		{func(c *Archive) { c.Rollups.Fine = 0 }, "rollups.fine: "},
		{func(c *Archive) { c.Rollups.Coarse = 0 }, "rollups.coarse: "},
		{func(c *Archive) { c.Rollups.After = 0 }, "rollups.after: "},
		{func(c *Archive) { c.Rollups.Age = 0 }, "rollups.age: "},
		{func(c *Archive) { c.Rollups.Bytes = 0 }, "rollups.bytes: "},
		{func(c *Archive) { c.Rollups.Flows = 0 }, "rollups.flows: "},
		{func(c *Archive) { c.Rollups.Prefixes = []string{"10.0.0.0/8", "10.0.0.1/8"} }, "rollups.prefixes[1]: "},
	} {
		a := DefaultArchive()
		c.change(&a)
		if err := a.Validate(); err == nil || !strings.HasPrefix(err.Error(), c.want) || strings.Contains(err.Error(), "sesame") {
			t.Errorf("%+v: %v, want %s", a, err, c.want)
		}
	}
}
