package jetstream

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestValidate(t *testing.T) {
	good := []Options{
		{},
		{Servers: []string{"nats://127.0.0.1:4222", "tls://nats.example:4222", "nats://[::1]:4222/"}},
		{Servers: []string{"nats://a"}, TLSCA: "/ca", TLSCert: "/c", TLSKey: "/k", Credentials: "/c"},
		{Servers: []string{"nats://a"}, User: "u", PasswordFile: "/p"},
		{Servers: []string{"nats://a"}, TokenFile: "/p"},
	}
	for _, o := range good {
		if err := o.Validate(); err != nil {
			t.Errorf("%+v: %v", o, err)
		}
	}
	bad := Options{
		Servers: []string{"127.0.0.1:4222", "http://a", "nats://me:hunter2@a", "nats://a:99999", "nats://a/x", "nats://me:hun%ter2@a", ""},
		TLSCert: "c", User: "u", TokenFile: "/t", Credentials: "/c",
	}
	text := fmt.Sprint(bad.Validate())
	for _, want := range []string{"servers[0]: ", "servers[1]: ", "servers[2]: ", "servers[3]: ", "servers[4]: ", "servers[5]: ", "servers[6]: ",
		"tls_cert: \"c\" is not an absolute", "tls_key: is missing", "password_file: is missing", "user: a client authenticates"} {
		if !strings.Contains(text, want) {
			t.Errorf("nothing begins with %q: %s", want, text)
		}
	}
	if strings.Contains(text, "hunter2") || strings.Contains(text, "ter2") {
		t.Errorf("a password is shown: %s", text)
	}
	alone := Options{TLSCA: "/ca"}
	if err := alone.Validate(); err == nil || !strings.HasPrefix(err.Error(), "tls_ca: is set, but there is no server") {
		t.Error(err)
	}
}

// TestCheckFiles: what cannot serve is said of every file, and nothing of what is in them.
func TestCheckFiles(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	o := Options{
		Servers: []string{"nats://127.0.0.1:1"}, TLSCA: write("ca", "s3cret"), TLSCert: write("cert", "s3cret"), TLSKey: write("key", "s3cret"),
		Credentials: write("creds", "s3cret"), PasswordFile: filepath.Join(dir, "none"), TokenFile: write("token", "\ns3cret"),
	}
	_, err := o.Dial()
	text := fmt.Sprint(err)
	for _, key := range []string{"tls_ca: ", "tls_cert: ", "credentials: ", "password_file: ", "token_file: "} {
		if !strings.Contains(text, key) {
			t.Errorf("nothing of %s: %s", key, text)
		}
	}
	if strings.Contains(text, "s3cret") {
		t.Errorf("it says %s", text)
	}
}

// TestPause: pauses grow, and never beyond twice the longest.
func TestPause(t *testing.T) {
	for attempt := range 100 {
		least := min(longestPause, firstPause<<min(max(0, attempt-1), 20))
		if p := Pause(attempt); p < least || p > 2*longestPause || p > 2*least {
			t.Errorf("attempt %d: %v, at least %v", attempt, p, least)
		}
	}
	if Pause(1) > time.Second {
		t.Error("the first pause is long")
	}
}
