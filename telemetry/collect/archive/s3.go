package archive

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/weirswitch/weir/internal/safefile"
	"github.com/weirswitch/weir/telemetry/collect"
)

// s3 is a bucket of a store that speaks S3's protocol.
type s3 struct {
	client         *minio.Client
	keys           *credentials.Credentials
	keysFrom       string // where the keys are configured, for messages
	server         string // as a URL, for messages
	bucket, prefix string // the prefix is empty, or ends with a slash
}

// maxCA bounds a file of certificates.
const maxCA = 1 << 20

// openS3 makes a client; it does not connect.
func openS3(c *collect.Archive, name, prefix string, q url.Values) (bucket, error) {
	endpoint := &url.URL{Scheme: "https", Host: "s3.amazonaws.com"}
	if text := q.Get("endpoint"); text != "" {
		var err error
		if endpoint, err = url.Parse(text); err != nil {
			return nil, fmt.Errorf("archive.url: endpoint: %w", err)
		}
	}
	keys, from, err := findKeys(c.Credentials)
	if err != nil {
		return nil, err
	}
	transport, err := minio.DefaultTransport(endpoint.Scheme == "https")
	if err != nil {
		return nil, err
	}
	transport.DialContext = dialMoving((&net.Dialer{Timeout: callWait, KeepAlive: 15 * time.Second}).DialContext, callWait)
	if c.CA != "" {
		pem, err := safefile.ReadTrusted(c.CA, maxCA)
		if err != nil {
			return nil, fmt.Errorf("archive.ca: %w", err)
		}
		roots := x509.NewCertPool()
		if !roots.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("archive.ca: %s has no certificate in PEM", c.CA)
		}
		transport.TLSClientConfig = &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots}
	}
	lookup := minio.BucketLookupAuto
	if q.Get("endpoint") != "" {
		lookup = minio.BucketLookupPath
	}
	client, err := minio.New(endpoint.Host, &minio.Options{
		Creds: keys, Secure: endpoint.Scheme == "https", Region: region(q), BucketLookup: lookup, Transport: transport,
		MaxRetries: 1, // the archive tries again itself, and says so
	})
	if err != nil {
		return nil, fmt.Errorf("archive.url: %w", err)
	}
	if prefix != "" {
		prefix += "/"
	}
	return &s3{client, keys, from, endpoint.Scheme + "://" + endpoint.Host, name, prefix}, nil
}

// region is the store's: that of the URL, or of the environment; empty: the store is asked.
func region(q url.Values) string {
	return cmp.Or(q.Get("region"), os.Getenv("AWS_REGION"), os.Getenv("AWS_DEFAULT_REGION"))
}

// findKeys returns the keys in a file, or those that AWS' programs would find: of the environment, of the user's file, of the role of the container
// or the machine. They are read when a request needs them.
func findKeys(file string) (keys *credentials.Credentials, from string, err error) {
	if file == "" {
		list := []credentials.Provider{&credentials.EnvAWS{}, &credentials.FileAWSCredentials{}}
		if off, _ := strconv.ParseBool(os.Getenv("AWS_EC2_METADATA_DISABLED")); !off {
			list = append(list, &credentials.IAM{Client: &http.Client{Timeout: roleWait}})
		}
		return credentials.NewChainCredentials(list), "the environment, of ~/.aws/credentials or of the machine's role", nil
	}
	if _, err := safefile.ReadPrivate(file, maxCA); err != nil {
		return nil, "", fmt.Errorf("archive.credentials: %w", err)
	}
	keys = credentials.NewFileAWSCredentials(file, "")
	if _, err := keys.GetWithContext(&credentials.CredContext{}); err != nil {
		return nil, "", fmt.Errorf("archive.credentials: %s has no profile default with aws_access_key_id and aws_secret_access_key: write both", file)
	}
	return keys, "the file " + file, nil
}

const (
	// callWait is how long a connection may be silent while an answer is due.
	callWait = 20 * time.Second
	// roleWait is how long the service may take that gives machines their roles: where there is none, packets to it may be dropped.
	roleWait = 5 * time.Second
)

// movingConn is a connection that fails when nothing moves for some time in either direction: a server that hangs, also in the
// middle of a body.
type movingConn struct {
	net.Conn
	wait time.Duration
}

// dialMoving has the connections of a dialer be such.
func dialMoving(dial func(context.Context, string, string) (net.Conn, error), wait time.Duration) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return &movingConn{c, wait}, nil
	}
}

func (c *movingConn) Read(p []byte) (int, error) {
	if err := c.SetReadDeadline(time.Now().Add(c.wait)); err != nil {
		return 0, err
	}
	return c.Conn.Read(p)
}

// Write writes piece by piece, and also defers the deadline of a read that waits for the answer meanwhile.
func (c *movingConn) Write(p []byte) (n int, err error) {
	for first := true; first || len(p) > 0; first = false {
		if err := c.SetDeadline(time.Now().Add(c.wait)); err != nil {
			return n, err
		}
		m, err := c.Conn.Write(p[:min(len(p), writePiece)])
		if n += m; err != nil {
			return n, err
		}
		p = p[m:]
	}
	return n, nil
}

// writePiece must pass within a connection's wait.
const writePiece = 64 << 10

// create makes a file without a name: whatever becomes of the process, nothing is left of it.
func (s *s3) create(pattern string) (*os.File, error) {
	f, err := os.CreateTemp("", "weir-archive-"+pattern)
	if err != nil {
		return nil, err
	}
	if err := os.Remove(f.Name()); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

func (s *s3) close() error { return nil }

// put sends the file as one object by one request, which is atomic.
func (s *s3) put(ctx context.Context, name string, staged *os.File) error {
	info, err := staged.Stat()
	if err != nil {
		return err
	}
	_, err = s.client.PutObject(ctx, s.bucket, s.prefix+name, io.NewSectionReader(staged, 0, info.Size()), info.Size(), minio.PutObjectOptions{
		ContentType: "application/vnd.apache.parquet", DisableMultipart: true, SendContentMd5: true,
	})
	if answer := (minio.ErrorResponse{}); err != nil && ctx.Err() == nil && !errors.As(err, &answer) {
		// The answer of a server that refuses a file without reading it may be lost with the connection, and comes to a request without a body.
		if refusal := s.list(ctx, name, func(string, int64) {}); isRefusal(refusal) {
			return refusal
		}
	}
	return s.explain(ctx, "write", err)
}

// wholeObject is the size up to which an object is read by one request.
const wholeObject = 16 << 20

func (s *s3) open(ctx context.Context, name string) (object, error) {
	body, err := s.client.GetObject(ctx, s.bucket, s.prefix+name, minio.GetObjectOptions{})
	if err != nil {
		return nil, s.explain(ctx, "read", err)
	}
	info, err := body.Stat()
	if err != nil {
		_ = body.Close()
		if !isNoKey(err) {
			return nil, s.explain(ctx, "read", err)
		}
		// A store says the same of an object and of the whole bucket.
		if there, err := s.client.BucketExists(ctx, s.bucket); err != nil || !there {
			return nil, s.explain(ctx, "read", cmp.Or(err, error(minio.ErrorResponse{Code: minio.NoSuchBucket})))
		}
		return nil, errNone
	}
	if info.Size > wholeObject {
		return &s3Object{body, info.Size}, nil
	}
	all := make([]byte, info.Size)
	_, err = io.ReadFull(body, all)
	if err = errors.Join(err, body.Close()); err != nil {
		return nil, s.explain(ctx, "read", err)
	}
	return memory{bytes.NewReader(all)}, nil
}

func isNoKey(err error) bool {
	var response minio.ErrorResponse
	return errors.As(err, &response) && (response.Code == minio.NoSuchKey || response.StatusCode == http.StatusNotFound)
}

// s3Object reads pieces of an object, a request for each.
type s3Object struct {
	*minio.Object
	size int64
}

func (o *s3Object) Size() int64 { return o.size }

// memory is an object that was read whole.
type memory struct{ *bytes.Reader }

func (m memory) Close() error { return nil }

func (s *s3) list(ctx context.Context, under string, each func(string, int64)) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for o := range s.client.ListObjects(ctx, s.bucket, minio.ListObjectsOptions{Prefix: s.prefix + under, Recursive: true}) {
		if o.Err != nil {
			return s.explain(ctx, "list", o.Err)
		}
		each(o.Key[len(s.prefix):], o.Size)
	}
	return ctx.Err()
}

func (s *s3) remove(ctx context.Context, name string) error {
	return s.explain(ctx, "delete", s.client.RemoveObject(ctx, s.bucket, s.prefix+name, minio.RemoveObjectOptions{}))
}
