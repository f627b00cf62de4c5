package config

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/weirswitch/weir/internal/printable"
	"github.com/weirswitch/weir/internal/tomlfile"
	"github.com/weirswitch/weir/telemetry/view/api"
)

// Region is a part of the network with collectors of its own, which this collector asks for what answers a question, [[region]].
type Region struct {
	// Name is the region's, as answers name it.
	Name string `toml:"name"`
	// Collectors are URLs of the region's collectors, of which each answers about all of the region: the first one that can be had is asked.
	Collectors []string `toml:"collectors"`
	// CA signs the certificates of the collectors, Certificate and Key are the own ones, for https://; files in PEM.
	CA          string `toml:"ca"`
	Certificate string `toml:"certificate"`
	Key         string `toml:"key"`
}

// TLS is how the region's collectors are asked over https.
func (r *Region) TLS() api.ClientTLS {
	return api.ClientTLS{CA: r.CA, Certificate: r.Certificate, Key: r.Key}
}

// maxRegions bounds the regions of a question, and maxRegionCollectors those that are asked in turn.
const maxRegions, maxRegionCollectors = 64, 16

func (c *Collect) validateRegions(f *tomlfile.Faults) {
	if len(c.Regions) > maxRegions {
		f.Add("region", "%d of them: at most %d", len(c.Regions), maxRegions)
	}
	taken := map[string]bool{c.Collect.Name: true}
	for i := range c.Regions {
		r := &c.Regions[i]
		key := func(name string) string { return fmt.Sprintf("region[%d].%s", i, name) }
		switch {
		case !printable.IsName(r.Name):
			f.Add(key("name"), "%q is not a name: use 1 to 32 letters, digits, '.', '_' and '-'", r.Name)
		case taken[r.Name]:
			f.Add(key("name"), "%q is taken: by another region, or by this collector", r.Name)
		}
		taken[r.Name] = true
		if n := len(r.Collectors); n == 0 || n > maxRegionCollectors {
			f.Add(key("collectors"), "%d of them: name 1 to %d of the region's collectors, as \"http://127.0.0.1:9470\"", n, maxRegionCollectors)
		}
		secure := r.TLS() != (api.ClientTLS{})
		for k, where := range r.Collectors {
			t := api.ClientTLS{}
			isHTTPS := strings.HasPrefix(where, "https://")
			if isHTTPS && !secure {
				f.Add(fmt.Sprintf("%s[%d]", key("collectors"), k), "%q needs ca, certificate and key of the region", where)
				continue
			}
			if !isHTTPS {
				if _, err := api.NewClient(where, t); err != nil {
					f.Add(fmt.Sprintf("%s[%d]", key("collectors"), k), "%v", err)
				}
			}
			if !isHTTPS && secure {
				f.Add(fmt.Sprintf("%s[%d]", key("collectors"), k), "%q has no use for certificates: write https://", where)
			}
		}
		for _, file := range []struct{ name, path string }{{"ca", r.CA}, {"certificate", r.Certificate}, {"key", r.Key}} {
			if file.path != "" && !filepath.IsAbs(file.path) {
				f.Add(key(file.name), "%q is not an absolute path: begin it with a slash", file.path)
			}
			if secure && file.path == "" {
				f.Add(key(file.name), "is missing: ca, certificate and key go together")
			}
		}
	}
}
