package config

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirswitch/weir/internal/keyfile"
	"github.com/weirswitch/weir/telemetry/hash"
)

// TestKey: a network's key makes the hash that under it, in switches and collectors, and is in no text; a file that others may
// read is refused, and so is the keyed hash without a key.
func TestKey(t *testing.T) {
	path := filepath.Join(t.TempDir(), "network.key")
	k, err := keyfile.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	keyed := func(more string) string {
		return strings.Replace(good, "[switch]", "[switch]\n"+more, 1)
	}
	c, err := Parse([]byte(keyed(fmt.Sprintf("key = %q", path))))
	if err != nil {
		t.Fatal(err)
	}
	if c.Switch.Hash.Kind() != hash.AES || c.Switch.Hash.KeyID() != hash.Network(k).ID() {
		t.Errorf("hash %v", c.Switch.Hash)
	}
	var dump bytes.Buffer
	if err := c.Dump(&dump); err != nil {
		t.Fatal(err)
	}
	text, _ := os.ReadFile(path)
	if secret := strings.Fields(string(text))[1]; strings.Contains(dump.String(), secret) {
		t.Error("the dump has the key")
	}
	if _, err := Parse(dump.Bytes()); err != nil {
		t.Errorf("the dump does not load: %v", err)
	}
	collect := fmt.Sprintf("[collect]\nkeys = [%q]\n", path)
	if _, err := ParseCollect([]byte(collect)); err != nil {
		t.Error(err)
	}
	for want, text := range map[string]string{
		"switch.key: is missing":  keyed(`hash = "aes"`),
		"has no key":              keyed(fmt.Sprintf("hash = \"crc\"\nkey = %q", path)),
		"is not an absolute path": keyed(`key = "network.key"`),
		"switch.key: open":        keyed(`key = "/nowhere/network.key"`),
		"another one":             keyed(fmt.Sprintf("hash = \"aes:%04x\"\nkey = %q", hash.Network(k).ID()^1, path)),
	} {
		if _, err := Parse([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	if _, err := ParseCollect([]byte("[collect]\nkeyless = [4]\n")); err == nil || !strings.Contains(err.Error(), "there are no keys") {
		t.Error(err)
	}
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, parse := range []func() error{
		func() error { _, err := Parse([]byte(keyed(fmt.Sprintf("key = %q", path)))); return err },
		func() error { _, err := ParseCollect([]byte(collect)); return err },
	} {
		if err := parse(); err == nil || !strings.Contains(err.Error(), "chmod 600") {
			t.Errorf("a key that others may read: %v", err)
		}
	}
}
