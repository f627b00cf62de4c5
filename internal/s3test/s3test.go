// Package s3test starts a store of S3 for tests: versitygw, with a folder as its buckets. "make test-s3" builds it from the module in testdata.
package s3test

import (
	"bytes"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/weirswitch/weir/internal/freeport"
)

// Program is the environment variable with the path of versitygw.
const Program = "WEIR_TEST_S3"

// The keys of a server.
const (
	AccessKey = "weir-test"
	SecretKey = "weir-test-secret"
)

// Server is a process.
type Server struct {
	// Address is HOST:PORT, and remains the same over restarts.
	Address string
	// Folder has a folder for each bucket, and in these a file for each object.
	Folder string

	program string
	mu      sync.Mutex
	cmd     *exec.Cmd // nil: it does not run
	log     output
}

// Start starts a server without buckets, for the time of a test. The test is skipped if there is no program.
func Start(t testing.TB) *Server {
	t.Helper()
	s := &Server{Address: freeport.Address(t), Folder: t.TempDir(), program: os.Getenv(Program)}
	if s.program == "" {
		t.Skipf("%s is not set: run make test-s3", Program)
	}
	t.Cleanup(s.Kill)
	s.Again(t)
	return s
}

// URL is the server's.
func (s *Server) URL() string { return "http://" + s.Address }

// Bucket makes a bucket, and returns the folder of its objects.
func (s *Server) Bucket(t testing.TB, name string) string {
	t.Helper()
	folder := filepath.Join(s.Folder, name)
	if err := os.Mkdir(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	return folder
}

// Keys writes a file of keys, as AWS' programs have it.
func Keys(t testing.TB, access, secret string) (file string) {
	t.Helper()
	file = filepath.Join(t.TempDir(), "credentials")
	if err := os.WriteFile(file, []byte("[default]\naws_access_key_id = "+access+"\naws_secret_access_key = "+secret+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// Kill ends it at once, if it runs.
func (s *Server) Kill() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cmd != nil {
		_ = s.cmd.Process.Kill()
		_ = s.cmd.Wait()
		s.cmd = nil
	}
}

// Again starts it with what it had, and waits until it answers.
func (s *Server) Again(t testing.TB) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	cmd := exec.Command(s.program, "--port", s.Address, "--access", AccessKey, "--secret", SecretKey, "posix", s.Folder)
	cmd.Stdout, cmd.Stderr = &s.log, &s.log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	s.cmd = cmd
	for end := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		c, err := net.Dial("tcp", s.Address)
		if err == nil {
			_ = c.Close()
			return
		}
		if time.Now().After(end) {
			t.Fatalf("the S3 server does not answer: %v\n%s", err, s.log.text())
		}
	}
}

// output is written by a process's reader while a test reads it.
type output struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(p)
}

func (o *output) text() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}
