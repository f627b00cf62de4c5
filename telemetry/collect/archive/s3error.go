package archive

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"github.com/minio/minio-go/v7"
)

// refusal is an answer that another attempt does not change: someone has to do something.
type refusal struct {
	text string
	error
}

func (r *refusal) Error() string { return r.text }
func (r *refusal) Unwrap() error { return r.error }

// isRefusal reports whether an error is one.
func isRefusal(err error) bool {
	var r *refusal
	return errors.As(err, &r)
}

// rights are what a store of S3 calls what the archive does.
var rights = map[string]string{"write": "s3:PutObject", "read": "s3:GetObject", "list": "s3:ListBucket", "delete": "s3:DeleteObject"}

// explain says what is wrong with a request, in one sentence with the remedy. After errors that new keys may help against, the keys are read again for the
// next request.
func (s *s3) explain(ctx context.Context, verb string, err error) error {
	var answer minio.ErrorResponse
	switch {
	case err == nil, ctx.Err() != nil:
		return err
	case !errors.As(err, &answer):
		return s.unreached(err)
	}
	refuse := func(format string, args ...any) error { return &refusal{fmt.Sprintf(format, args...), err} }
	switch answer.Code {
	case minio.NoSuchBucket:
		return refuse("there is no bucket %q at %s: make it, or correct archive.url", s.bucket, s.server)
	case "InvalidAccessKeyId", "XAdminUserNotFound": // as versitygw has it
		s.keys.Expire()
		return refuse("%s does not know the access key of %s: correct it", s.server, s.keysFrom)
	case "SignatureDoesNotMatch":
		s.keys.Expire()
		return refuse("%s refuses the secret key of %s: correct it", s.server, s.keysFrom)
	case "ExpiredToken", "TokenRefreshRequired", "InvalidToken":
		s.keys.Expire()
		return refuse("%s refuses the session token of %s: renew it", s.server, s.keysFrom)
	case "RequestTimeTooSkewed":
		return refuse("the clocks of %s and of this machine differ by more than it allows: set them, as by NTP", s.server)
	case "PermanentRedirect", "AuthorizationHeaderMalformed", "IllegalLocationConstraintException", minio.InvalidRegion:
		if answer.Region != "" {
			return refuse("the bucket %q is in another region: write region=%s in archive.url", s.bucket, answer.Region)
		}
		return refuse("%s refuses the region: write that of the bucket %q as region=NAME in archive.url", s.server, s.bucket)
	}
	switch {
	case answer.StatusCode == http.StatusForbidden || answer.Code == minio.AccessDenied:
		s.keys.Expire()
		if v, err := s.client.GetCreds(); err == nil && v.AccessKeyID == "" {
			return refuse("no keys for %s were found: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY in the collector's environment, or name a file of keys as archive.credentials", s.server)
		}
		return refuse("%s does not allow the keys of %s to %s in the bucket %q: allow them %s", s.server, s.keysFrom, verb, s.bucket, rights[verb])
	case answer.StatusCode >= http.StatusInternalServerError:
		return fmt.Errorf("%s cannot %s now: %s: it is asked again", s.server, verb, answer.Error())
	}
	return fmt.Errorf("%s refuses to %s: %s (%s)", s.server, verb, answer.Error(), answer.Code)
}

// unreached explains an error of a connection.
func (s *s3) unreached(err error) error {
	var unknown x509.UnknownAuthorityError
	var wrong x509.HostnameError
	var invalid x509.CertificateInvalidError
	switch {
	case errors.As(err, &unknown):
		return &refusal{fmt.Sprintf("the certificate of %s is signed by an authority that is not known here: name its certificate as archive.ca", s.server), err}
	case errors.As(err, &wrong), errors.As(err, &invalid):
		return &refusal{fmt.Sprintf("the certificate of %s is not valid: %v", s.server, errors.Unwrap(err)), err}
	}
	cause := err
	if u := new(url.Error); errors.As(err, &u) {
		cause = u.Err // without the request
	}
	if errors.Is(cause, io.EOF) || errors.Is(cause, io.ErrUnexpectedEOF) {
		return fmt.Errorf("%s ended the connection: it is asked again", s.server)
	}
	return fmt.Errorf("%s cannot be reached, and is asked again: %w", s.server, cause)
}
