package archive

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/weirswitch/weir/telemetry/collect"
)

// bucket keeps files under names with slashes. All methods are safe for concurrent use.
type bucket interface {
	// create makes a file to be written before it is put. The caller closes it, and removes it by its name if it still has it.
	create(pattern string) (*os.File, error)
	// put keeps such a file under a name: whole, or not at all. It may have another name then.
	put(ctx context.Context, name string, staged *os.File) error
	// open opens a file; errNone: there is none.
	open(ctx context.Context, name string) (object, error)
	// list calls each for all files whose names begin with a folder, which ends with a slash.
	list(ctx context.Context, folder string, each func(name string, size int64)) error
	// remove removes a file, if it is there.
	remove(ctx context.Context, name string) error
	// close removes what was created and not put.
	close() error
}

// object is a file of a bucket.
type object interface {
	io.ReaderAt
	io.Closer
	Size() int64
}

// errNone says that a bucket has no such file.
var errNone = errors.New("the archive has no such file")

// openBucket opens what a URL names. owner distinguishes collectors that share it.
func openBucket(c *collect.Archive, owner string) (bucket, error) {
	u, err := url.Parse(c.URL)
	if err != nil {
		return nil, fmt.Errorf("archive.url: %w", err)
	}
	switch u.Scheme {
	case "file":
		return openFolder(filepath.FromSlash(u.Path), owner)
	case "s3":
		return openS3(c, u.Host, strings.Trim(u.Path, "/"), u.Query())
	}
	return nil, fmt.Errorf("archive.url: %q: write file:///FOLDER or s3://BUCKET", c.URL)
}
