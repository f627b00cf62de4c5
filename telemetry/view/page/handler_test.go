package page

import (
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"
)

func get(t *testing.T, h http.Handler, method, path string, header ...string) *http.Response {
	t.Helper()
	r := httptest.NewRequest(method, path, nil)
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Result()
}

func body(t *testing.T, r *http.Response) string {
	t.Helper()
	b, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

var reference = regexp.MustCompile(`(?:src|href)="([^"#][^"]*)"`)

// TestHandler: the page and all that it refers to are served, with what browsers need to keep it and to
// distrust all else.
func TestHandler(t *testing.T) {
	h := Handler(Config{Refresh: 5 * time.Second})
	index := get(t, h, "GET", "/")
	text := body(t, index)
	if index.StatusCode != 200 || index.Header.Get("Content-Type") != "text/html; charset=utf-8" || index.Header.Get("Cache-Control") != "no-cache" {
		t.Errorf("the page: %d %v", index.StatusCode, index.Header)
	}
	if strings.Contains(text, "{{") || !strings.Contains(text, `data-refresh="5"`) {
		t.Error("a place of the page was not filled")
	}
	for _, inline := range []string{"<style", "style=", "onclick", "javascript:", "<script>", "http://", "https://"} {
		if strings.Contains(text, inline) {
			t.Errorf("the page has %q, which its policy forbids", inline)
		}
	}
	found := 0
	for _, m := range reference.FindAllStringSubmatch(text, -1) {
		if m[1] == "schema/query.proto" || m[1] == "metrics" {
			continue // the collector's
		}
		found++
		r := get(t, h, "GET", "/"+m[1])
		if r.StatusCode != 200 || !strings.Contains(r.Header.Get("Cache-Control"), "immutable") || !regexp.MustCompile(`^assets/[0-9a-f]{16}/`).MatchString(m[1]) {
			t.Errorf("%s: %d %v", m[1], r.StatusCode, r.Header)
		}
		if r.Header.Get("ETag") == "" || get(t, h, "GET", "/"+m[1], "If-None-Match", r.Header.Get("ETag")).StatusCode != http.StatusNotModified {
			t.Errorf("%s: a browser that has it gets it again", m[1])
		}
	}
	if found < 4 {
		t.Errorf("the page refers to %d assets", found)
	}
	if r := get(t, h, "GET", "/", "If-None-Match", index.Header.Get("ETag")); r.StatusCode != http.StatusNotModified || body(t, r) != "" {
		t.Errorf("the page that a browser has: %d", r.StatusCode)
	}
	if r := get(t, h, "HEAD", "/"); r.StatusCode != 200 || body(t, r) != "" {
		t.Errorf("HEAD: %d", r.StatusCode)
	}
}

// TestAddresses: all other addresses and methods are refused, with the headers of safety.
func TestAddresses(t *testing.T) {
	h := Handler(Config{})
	for _, c := range []struct {
		method, path string
		status       int
	}{
		{"GET", "/index.html", 404}, {"GET", "/assets/", 404}, {"GET", "/assets/0123456789abcdef/main.js", 404}, {"GET", "/../handler.go", 404},
		{"GET", "/main.js", 404}, {"POST", "/", 405}, {"DELETE", "/", 405}, {"GET", "/", 200},
	} {
		r := get(t, h, c.method, c.path)
		if r.StatusCode != c.status {
			t.Errorf("%s %s: %d, want %d", c.method, c.path, r.StatusCode, c.status)
		}
		policy := r.Header.Get("Content-Security-Policy")
		if !strings.Contains(policy, "default-src 'none'") || strings.Contains(policy, "unsafe") || r.Header.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s %s: headers %v", c.method, c.path, r.Header)
		}
	}
}

// TestAssets: scripts import only each other, and make nothing of strings.
func TestAssets(t *testing.T) {
	imports := regexp.MustCompile(`from "([^"]+)"`)
	err := fs.WalkDir(embedded, "assets", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(name, ".js") {
			return err
		}
		text, err := fs.ReadFile(embedded, name)
		for _, m := range imports.FindAllSubmatch(text, -1) {
			if _, err := fs.Stat(embedded, "assets/"+strings.TrimPrefix(string(m[1]), "./")); err != nil {
				t.Errorf("%s imports %s: %v", name, m[1], err)
			}
		}
		for _, sink := range []string{"innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function"} {
			if strings.Contains(string(text), sink) {
				t.Errorf("%s uses %s: text goes in as text alone", name, sink)
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
