package page

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"io/fs"
	"mime"
	"net/http"
	"path"
	"strconv"
	"strings"
	"time"
)

//go:embed assets
var embedded embed.FS

// Config is what the page is served with. The zero value is ready.
type Config struct {
	// Refresh is how often the page asks unless the viewer chooses otherwise: 1, 2, 5,
	// 15 or 60 s; 0 means 2 s.
	Refresh time.Duration
}

// policy lets the page load its own files and ask its own server, and nothing else;
// no script or style is in a document, and no string becomes markup. An image may be a blob, which
// the page makes itself: its drawings on their way to a PNG file.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

// year is how long a browser may keep an asset: its address changes with its content.
const year = "public, max-age=31536000, immutable"

// file is what one address answers.
type file struct {
	body    []byte
	kind    string
	caching string
	etag    string
}

// Handler serves the page at "/" and its assets at "/assets/HASH/NAME", where the hash
// is that of all assets; the API it asks is to be served beside it. Addresses
// that it does not know are not found, and methods other than GET and HEAD refused.
func Handler(c Config) http.Handler {
	files := load(c)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		secure(w.Header())
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			w.Header().Set("Allow", "GET, HEAD")
			http.Error(w, "the page is read by GET; questions go to /weir.query.v1.QueryService/", http.StatusMethodNotAllowed)
			return
		}
		f, ok := files[r.URL.Path]
		if !ok {
			w.Header().Set("Cache-Control", "no-store")
			http.Error(w, "there is nothing at this address: the page is at /", http.StatusNotFound)
			return
		}
		f.serve(w, r)
	})
}

func (f *file) serve(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Type", f.kind)
	h.Set("Cache-Control", f.caching)
	h.Set("ETag", f.etag)
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(f.body))
}

func secure(h http.Header) {
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Permissions-Policy", "camera=(), geolocation=(), microphone=()")
}

// load makes the files by their addresses. What is embedded is ours, so that what cannot be read
// is our mistake.
func load(c Config) map[string]*file {
	assets, err := fs.Sub(embedded, "assets")
	if err != nil {
		panic(err)
	}
	bodies, sum := map[string][]byte{}, sha256.New()
	err = fs.WalkDir(assets, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		body, err := fs.ReadFile(assets, name)
		bodies[name] = body
		fmt.Fprintf(sum, "%s %d\n%s", name, len(body), body)
		return err
	})
	if err != nil {
		panic(err)
	}
	folder := "assets/" + hex.EncodeToString(sum.Sum(nil)[:8])
	files := map[string]*file{}
	for name, body := range bodies {
		if name != "index.html" {
			files["/"+folder+"/"+name] = &file{body, mime.TypeByExtension(path.Ext(name)), year, etag(body)}
		}
	}
	refresh := max(c.Refresh, 0)
	if refresh == 0 {
		refresh = 2 * time.Second
	}
	index := strings.NewReplacer(
		"{{assets}}", folder,
		"{{refresh}}", strconv.Itoa(max(int(refresh/time.Second), 1)),
	).Replace(string(bodies["index.html"]))
	files["/"] = &file{[]byte(index), "text/html; charset=utf-8", "no-cache", etag([]byte(index))}
	return files
}

func etag(body []byte) string {
	sum := sha256.Sum256(body)
	return `"` + hex.EncodeToString(sum[:12]) + `"`
}
