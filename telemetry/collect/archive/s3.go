package archive

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/weirswitch/weir/internal/safefile"
	"github.com/weirswitch/weir/telemetry/collect"
)

// s3 is a bucket of a store that speaks S3's protocol.
type s3 struct {
	client         *minio.Client
	bucket, prefix string // the prefix is empty, or ends with a slash
	stage          string
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
	keys := credentials.NewChainCredentials([]credentials.Provider{&credentials.EnvAWS{}, &credentials.IAM{Client: &http.Client{Timeout: callWait}}})
	if c.Credentials != "" {
		if _, err := safefile.ReadPrivate(c.Credentials, maxCA); err != nil {
			return nil, fmt.Errorf("archive.credentials: %w", err)
		}
		keys = credentials.NewFileAWSCredentials(c.Credentials, "")
		if _, err := keys.GetWithContext(&credentials.CredContext{}); err != nil {
			return nil, fmt.Errorf("archive.credentials: %s has no profile default with aws_access_key_id and aws_secret_access_key: write both", c.Credentials)
		}
	}
	transport, err := minio.DefaultTransport(endpoint.Scheme == "https")
	if err != nil {
		return nil, err
	}
	transport.ResponseHeaderTimeout = callWait
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
		Creds: keys, Secure: endpoint.Scheme == "https", Region: q.Get("region"), BucketLookup: lookup, Transport: transport,
		MaxRetries: 1, // the archive tries again itself, and says so
	})
	if err != nil {
		return nil, fmt.Errorf("archive.url: %w", err)
	}
	if prefix != "" {
		prefix += "/"
	}
	stage, err := os.MkdirTemp("", "weir-archive-")
	if err != nil {
		return nil, fmt.Errorf("archive: %w", err)
	}
	return &s3{client, name, prefix, stage}, nil
}

// callWait is how long a server may take to begin an answer.
const callWait = 20 * time.Second

func (s *s3) staging() string { return s.stage }

// put sends the file as one object by one request, which is atomic.
func (s *s3) put(ctx context.Context, name, staged string) error {
	_, err := s.client.FPutObject(ctx, s.bucket, s.prefix+name, staged, minio.PutObjectOptions{
		ContentType: "application/vnd.apache.parquet", DisableMultipart: true, SendContentMd5: true,
	})
	return err
}

// wholeObject is the size up to which an object is read by one request.
const wholeObject = 16 << 20

func (s *s3) open(ctx context.Context, name string) (object, error) {
	body, err := s.client.GetObject(ctx, s.bucket, s.prefix+name, minio.GetObjectOptions{})
	if err != nil {
		return nil, err
	}
	info, err := body.Stat()
	if err != nil {
		err = errors.Join(err, body.Close())
		if minio.ToErrorResponse(err).StatusCode == http.StatusNotFound || isNoKey(err) {
			return nil, errNone
		}
		return nil, err
	}
	if info.Size > wholeObject {
		return &s3Object{body, info.Size}, nil
	}
	all := make([]byte, info.Size)
	_, err = io.ReadFull(body, all)
	if err = errors.Join(err, body.Close()); err != nil {
		return nil, err
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
			return fmt.Errorf("list the archive: %w", o.Err)
		}
		each(o.Key[len(s.prefix):], o.Size)
	}
	return ctx.Err()
}

func (s *s3) remove(ctx context.Context, name string) error {
	return s.client.RemoveObject(ctx, s.bucket, s.prefix+name, minio.RemoveObjectOptions{})
}
