package archive

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirswitch/weir/internal/s3test"
	"github.com/weirswitch/weir/telemetry/collect"
)

// s3Of opens a bucket with a file of keys.
func s3Of(t *testing.T, url, keys string) bucket {
	t.Helper()
	b, err := openBucket(&collect.Archive{URL: url, Credentials: keys}, "c1")
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// objects are the files below a folder, and their sizes, as the server keeps them.
func objects(t *testing.T, folder string) map[string]int64 {
	t.Helper()
	list := map[string]int64{}
	err := filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err == nil {
			list[strings.TrimPrefix(path, folder+"/")] = info.Size()
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// TestS3Bucket: a store of S3 keeps files under their names, small ones and such as are read by pieces, and nothing is left of what was staged.
func TestS3Bucket(t *testing.T) {
	server := s3test.Start(t)
	folder := server.Bucket(t, "weir")
	temporary := t.TempDir()
	t.Setenv("TMPDIR", temporary)
	url := "s3://weir/a/b?region=us-east-1&endpoint=" + server.URL()
	b := s3Of(t, url, s3test.Keys(t, s3test.AccessKey, s3test.SecretKey))
	other := s3Of(t, strings.Replace(url, "/a/b", "/a/bc", 1), s3test.Keys(t, s3test.AccessKey, s3test.SecretKey))
	want := map[string]int64{}
	for i, size := range []int64{0, 1, 100_000, wholeObject, wholeObject + 1} {
		name := fmt.Sprintf("%skind=lds/day=2026-11-26/%d.parquet", prefix, i)
		staged := created(t, b)
		content := make([]byte, size)
		for j := range content {
			content[j] = byte(j * j >> 8)
		}
		if _, err := staged.Write(content); err != nil {
			t.Fatal(err)
		}
		if _, err := b.open(t.Context(), name); !errors.Is(err, errNone) {
			t.Errorf("before it is there: %v", err)
		}
		for range 2 { // a second attempt, where the first one did not learn that it succeeded
			if err := b.put(t.Context(), name, staged); err != nil {
				t.Fatal(err)
			}
		}
		o, err := b.open(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		got := make([]byte, size)
		if n, err := o.ReadAt(got, 0); int64(n) != size || err != nil && !errors.Is(err, io.EOF) || !bytes.Equal(got, content) || o.Size() != size {
			t.Errorf("%d bytes: %d of %d were read, or others: %v", size, n, o.Size(), err)
		}
		if err := o.Close(); err != nil {
			t.Error(err)
		}
		want[name] = size
	}
	if err := other.put(t.Context(), prefix+"kind=lds/x", created(t, other)); err != nil {
		t.Fatal(err)
	}
	list := func() map[string]int64 {
		got := map[string]int64{}
		if err := b.list(t.Context(), prefix, func(name string, size int64) { got[name] = size }); err != nil {
			t.Fatal(err)
		}
		return got
	}
	if got := list(); !maps.Equal(got, want) {
		t.Errorf("listed: %v, want %v", got, want)
	}
	if got := objects(t, filepath.Join(folder, "a", "b")); !maps.Equal(got, want) {
		t.Errorf("the server has %v, want %v", got, want)
	}
	for name := range want {
		for range 2 {
			if err := b.remove(t.Context(), name); err != nil {
				t.Error(err)
			}
		}
	}
	if got := list(); len(got) != 0 {
		t.Errorf("left: %v", got)
	}
	if left, err := os.ReadDir(temporary); err != nil || len(left) != 0 {
		t.Errorf("staged files are left: %v, %v", left, err)
	}
}

// TestS3Expire: retention deletes the objects of a store of S3 that are too old and the oldest ones beyond the bytes, and no others.
func TestS3Expire(t *testing.T) {
	server := s3test.Start(t)
	folder := server.Bucket(t, "kept")
	a, _ := monthOfRows(t, s3Of(t, "s3://kept?region=us-east-1&endpoint="+server.URL(), s3test.Keys(t, s3test.AccessKey, s3test.SecretKey)), 16, 10)
	a.index = newIndex()
	if err := a.index.read(t.Context(), a.bucket, prefix); err != nil { // what is there, and its sizes
		t.Fatal(err)
	}
	all := slices.Sorted(maps.Keys(objects(t, folder))) // by arrival
	if n, _ := a.index.size(); n != 12 || len(all) != 12 {
		t.Fatalf("%d files are listed of %d", n, len(all))
	}
	third, err := parseName(all[2])
	if err != nil {
		t.Fatal(err)
	}
	a.config.Age, a.config.Bytes = time.Since(time.Unix(0, third.Arrived))+time.Second, 1<<40
	if err := a.expire(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := slices.Sorted(maps.Keys(objects(t, folder))); !slices.Equal(got, all[2:]) {
		t.Errorf("by age:\n left %q\n want %q", got, all[2:])
	}
	sizes := objects(t, folder)
	for _, name := range all[7:] {
		a.config.Bytes += sizes[name]
	}
	a.config.Bytes -= 1 << 40
	if err := a.expire(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := slices.Sorted(maps.Keys(objects(t, folder))); !slices.Equal(got, all[7:]) {
		t.Errorf("by bytes:\n left %q\n want %q", got, all[7:])
	}
	if n := a.counts.deleted.Load(); n != 7 {
		t.Errorf("%d files are counted as deleted", n)
	}
}

// TestS3Refusals: of what a real server refuses an error says what to do, and needs no other attempt. Keys that were corrected are read again.
func TestS3Refusals(t *testing.T) {
	server := s3test.Start(t)
	server.Bucket(t, "weir")
	url := "s3://weir?region=us-east-1&endpoint=" + server.URL()
	for _, c := range []struct{ url, access, secret, want string }{
		{url, "other", s3test.SecretKey, server.URL() + " does not know the access key of the file "},
		{url, s3test.AccessKey, "other", server.URL() + " refuses the secret key of the file "},
		{strings.Replace(url, "weir", "none", 1), s3test.AccessKey, s3test.SecretKey, `there is no bucket "none" at ` + server.URL() + ": make it, or correct archive.url"},
	} {
		file := s3test.Keys(t, c.access, c.secret)
		b := s3Of(t, c.url, file)
		const name = prefix + "kind=lds/day=2026-11-26/x.parquet"
		calls := map[string]func() error{
			"list": func() error { return b.list(t.Context(), prefix, func(string, int64) {}) },
			"put":  func() error { return b.put(t.Context(), name, created(t, b)) },
		}
		if c.secret != "other" && c.access != "other" { // of an object the server gives no reason
			calls["open"] = func() error { _, err := b.open(t.Context(), name); return err }
		}
		for call, f := range calls {
			if err := f(); err == nil || !strings.HasPrefix(err.Error(), c.want) || !isRefusal(err) {
				t.Errorf("%s: %v\nwant %s...", call, err, c.want)
			}
		}
		if !strings.Contains(c.want, "key of") {
			continue
		}
		right, err := os.ReadFile(s3test.Keys(t, s3test.AccessKey, s3test.SecretKey))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, right, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := calls["put"](); err != nil {
			t.Errorf("with keys that were corrected: %v", err)
		}
	}
	server.Kill()
	err := s3Of(t, url, s3test.Keys(t, s3test.AccessKey, s3test.SecretKey)).list(t.Context(), prefix, func(string, int64) {})
	if err == nil || !strings.HasPrefix(err.Error(), server.URL()+" cannot be reached, and is asked again: ") || strings.Contains(err.Error(), "list-type") || isRefusal(err) {
		t.Errorf("a server that is not there: %v", err)
	}
}

// TestS3Answers: so it is with answers of other servers.
func TestS3Answers(t *testing.T) {
	var status int
	var code, more string
	answer := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, _ = fmt.Fprintf(w, "<Error><Code>%s</Code><Message>no.</Message>%s</Error>", code, more)
	})
	front := httptest.NewServer(answer)
	t.Cleanup(front.Close)
	sealed := httptest.NewTLSServer(answer)
	t.Cleanup(sealed.Close)
	keys := s3test.Keys(t, "a", "b")
	list := func(b bucket) error { return b.list(t.Context(), prefix, func(string, int64) {}) }
	for _, c := range []struct {
		status           int
		code, more, want string
		refusal          bool
	}{
		{403, "AccessDenied", "", front.URL + " does not allow the keys of the file " + keys + ` to list in the bucket "weir": allow them s3:ListBucket`, true},
		{400, "ExpiredToken", "", front.URL + " refuses the session token of the file " + keys + ": renew it", true},
		{403, "RequestTimeTooSkewed", "", "the clocks of " + front.URL + " and of this machine differ by more than it allows: set them, as by NTP", true},
		{503, "SlowDown", "", front.URL + " cannot list now: no.: it is asked again", false},
		{400, "Strange", "", front.URL + " refuses to list: no. (Strange)", false},
		{301, "PermanentRedirect", "<Region>eu-9</Region>", `the bucket "weir" is in another region: write region=eu-9 in archive.url`, true},
	} {
		status, code, more = c.status, c.code, c.more
		if err := list(s3Of(t, "s3://weir?region=us-east-1&endpoint="+front.URL, keys)); err == nil || err.Error() != c.want || isRefusal(err) != c.refusal {
			t.Errorf("%s: %v\nwant %s", c.code, err, c.want)
		}
	}
	for _, name := range []string{"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_ACCESS_KEY", "AWS_SECRET_KEY"} {
		t.Setenv(name, "")
	}
	t.Setenv("AWS_EC2_METADATA_DISABLED", "true")
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", filepath.Join(t.TempDir(), "none"))
	status, code, more = 403, "AccessDenied", ""
	if err := list(s3Of(t, "s3://weir?region=us-east-1&endpoint="+front.URL, "")); err == nil || !strings.HasPrefix(err.Error(), "no keys for "+front.URL+" were found: set AWS_ACCESS_KEY_ID") {
		t.Errorf("without keys: %v", err)
	}
	want := "the certificate of " + sealed.URL + " is signed by an authority that is not known here: name its certificate as archive.ca"
	if err := list(s3Of(t, "s3://weir?region=us-east-1&endpoint="+sealed.URL, keys)); err == nil || err.Error() != want || !isRefusal(err) {
		t.Errorf("%v\nwant %s", err, want)
	}
}

// TestS3LostAnswer: a server that refuses keys may end the connection of a file that is being sent before its answer is read: the refusal is asked for again.
func TestS3LostAnswer(t *testing.T) {
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPut {
			panic(http.ErrAbortHandler) // ends the connection
		}
		w.WriteHeader(http.StatusForbidden)
		_, _ = io.WriteString(w, "<Error><Code>SignatureDoesNotMatch</Code><Message>no.</Message></Error>")
	}))
	t.Cleanup(front.Close)
	b := s3Of(t, "s3://weir?region=us-east-1&endpoint="+front.URL, s3test.Keys(t, "a", "b"))
	err := b.put(t.Context(), prefix+"x.parquet", created(t, b))
	if err == nil || !strings.HasPrefix(err.Error(), front.URL+" refuses the secret key of the file ") || !isRefusal(err) {
		t.Errorf("%v", err)
	}
}

// TestS3Environment: without a file of keys, they and the region are those of the environment, then those of the user's file.
func TestS3Environment(t *testing.T) {
	server := s3test.Start(t)
	server.Bucket(t, "weir")
	t.Setenv("AWS_EC2_METADATA_DISABLED", "true")
	t.Setenv("AWS_REGION", "us-east-1")
	url := "s3://weir?endpoint=" + server.URL()
	t.Run("variables", func(t *testing.T) {
		t.Setenv("AWS_SHARED_CREDENTIALS_FILE", s3test.Keys(t, "other", "other"))
		t.Setenv("AWS_ACCESS_KEY_ID", s3test.AccessKey)
		t.Setenv("AWS_SECRET_ACCESS_KEY", s3test.SecretKey)
		if err := s3Of(t, url, "").list(t.Context(), prefix, func(string, int64) {}); err != nil {
			t.Error(err)
		}
	})
	t.Run("file", func(t *testing.T) {
		t.Setenv("AWS_SHARED_CREDENTIALS_FILE", s3test.Keys(t, s3test.AccessKey, s3test.SecretKey))
		t.Setenv("AWS_ACCESS_KEY_ID", "")
		t.Setenv("AWS_SECRET_ACCESS_KEY", "")
		t.Setenv("AWS_ACCESS_KEY", "")
		t.Setenv("AWS_SECRET_KEY", "")
		if err := s3Of(t, url, "").list(t.Context(), prefix, func(string, int64) {}); err != nil {
			t.Error(err)
		}
	})
}

// TestMovingConn: a peer that takes or gives nothing any more ends a connection; one that takes slowly does not.
func TestMovingConn(t *testing.T) { synctest.Test(t, testMovingConn) } // in which time passes when all wait

func testMovingConn(t *testing.T) {
	pair := func() (own, peer net.Conn) {
		own, peer = net.Pipe()
		t.Cleanup(func() { _, _ = own.Close(), peer.Close() })
		dial := dialMoving(func(context.Context, string, string) (net.Conn, error) { return own, nil }, callWait)
		own, err := dial(t.Context(), "", "")
		if err != nil {
			t.Fatal(err)
		}
		return own, peer
	}
	own, _ := pair()
	if _, err := own.Write(make([]byte, 10)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("a peer that takes nothing: %v", err)
	}
	own, _ = pair()
	if _, err := own.Read(make([]byte, 10)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("a peer that gives nothing: %v", err)
	}

	// The answer comes when all is read, which takes longer than the wait, while each piece comes in time.
	const pieces = 20
	own, peer := pair()
	failed := make(chan error, 2)
	go func() {
		_, err := io.ReadFull(own, make([]byte, 1))
		failed <- err
	}()
	go func() {
		_, err := own.Write(make([]byte, pieces*writePiece))
		failed <- err
	}()
	piece := make([]byte, writePiece)
	for range pieces {
		time.Sleep(callWait * 9 / 10)
		if _, err := io.ReadFull(peer, piece); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := peer.Write(piece[:1]); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := <-failed; err != nil {
			t.Errorf("a slow peer: %v", err)
		}
	}
}
