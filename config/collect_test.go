package config

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// TestCollectDefaults: no text at all is a collector of this machine alone.
func TestCollectDefaults(t *testing.T) {
	c, err := ParseCollect([]byte("[collect]\nname = \"c1\""))
	if err != nil {
		t.Fatal(err)
	}
	want := DefaultCollect()
	want.Collect.Name = "c1"
	if diff := cmp.Diff(want, c); diff != "" {
		t.Error(diff)
	}
}

// TestCollectReference: collect.toml names every key that Dump writes, with the value that Dump
// writes, which is the default, and what is dumped loads to the same.
func TestCollectReference(t *testing.T) {
	text, err := os.ReadFile("collect.toml")
	if err != nil {
		t.Fatal(err)
	}
	c, err := LoadCollect("collect.toml")
	if err != nil {
		t.Fatal(err)
	}
	var dump, again bytes.Buffer
	if err := c.Dump(&dump); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(firstOfEach(dump.Bytes()), firstOfEach(text)); diff != "" {
		t.Errorf("-dump +collect.toml:\n%s", diff)
	}
	second, err := ParseCollect(dump.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(c, second, cmpopts.EquateEmpty()); diff != "" {
		t.Error(diff)
	}
	if err := second.Dump(&again); err != nil || again.String() != dump.String() {
		t.Errorf("%v\n%s", err, cmp.Diff(dump.String(), again.String()))
	}
	want := DefaultCollect()
	want.Collect.Name, want.NATS.Clients, want.Links, want.Regions = "collector", c.NATS.Clients, c.Links, c.Regions
	if diff := cmp.Diff(want, c, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("collect.toml shows no defaults: %s", diff)
	}
}

// TestCollectFaults expects exactly these faults of a text, with their lines.
func TestCollectFaults(t *testing.T) {
	const name = "[collect]\nname = \"c\"\n"
	files := "certificate = \"/c\"\nkey = \"/k\"\nca = \"/a\"\n"
	for _, tt := range []struct{ name, text, want string }{
		{"syntax", "[collect", `line 1: not valid TOML: `},
		{"unknown table", name + "[stor]", `line 3: stor: there is no such key: did you mean "store"?`},
		{"unknown key", name + "listn = 1", `line 3: collect.listn: there is no such key: did you mean "listen"?`},
		{"type", name + "[store]\nbytes = \"1 GB\"", `line 4: store.bytes: is a string: write an integer`},
		{"name", "[collect]\nname = \"a b\"", `line 2: collect.name: "a b" is not a name: use 1 to 32 letters, digits, '.', '_' and '-'`},
		{"address", name + "listen = \"localhost\"", `line 3: collect.listen: "localhost" is not an address with a port: write one, as in "127.0.0.1:4222"`},
		{"open to all", name + "listen = \"0.0.0.0:9470\"", `line 3: collect.listen: other machines reach 0.0.0.0:9470, so both sides must have certificates: set [tls], or listen on 127.0.0.1`},
		{"any address", name + "listen = \":9470\"", `line 3: collect.listen: other machines reach :9470, so both sides must have certificates: set [tls], or listen on 127.0.0.1`},
		{"open to all switches", name + "[nats]\nlisten = \"[::]:4222\"", `line 4: nats.listen: other machines reach [::]:4222, so both sides must have certificates: set [nats.tls], or listen on 127.0.0.1`},
		{"half of TLS", name + "[tls]\nkey = \"k\"", "line 3: tls.ca: is missing: name a file in PEM; both sides need certificates\nline 3: tls.certificate: is missing: name a file in PEM; both sides need certificates\nline 4: tls.key: \"k\" is not an absolute path: begin it with a slash"},
		{"admins of nothing", name + "[tls]\nadmins = [\"a\"]", `line 4: tls.admins: is set, but there are no certificates: set tls.certificate, tls.key and tls.ca, or remove it`},
		{"no clients", name + "[nats]\nlisten = \"0.0.0.0:4222\"\n[nats.tls]\n" + files, `line 3: nats.client: is missing: with [nats.tls] only named clients may connect, add a table [[nats.client]] for each switch`},
		{"client", name + "[[nats.client]]\nname = \"s1\"\nrole = \"swich\"", "line 3: nats.client[0].password_file: is missing: without [nats.tls] a password is all that the client has\nline 5: nats.client[0].role: \"swich\": choose \"switch\" or \"collector\""},
		{"number twice", name + "[[nats.client]]\nname = \"a\"\npassword_file = \"/a\"\nswitch = 1\n[[nats.client]]\nname = \"a\"\npassword_file = \"/b\"\nswitch = 1",
			"line 8: nats.client[1].name: client[0] is called \"a\" already: choose another name\nline 10: nats.client[1].switch: client[0] is switch 1 already: choose another number"},
		{"a collector's name", name + "[[nats.client]]\nname = \"a.>\"\npassword_file = \"/a\"\nrole = \"collector\"", `line 4: nats.client[0].name: "a.>": a collector's name is part of subjects: use letters, digits, '_' and '-'`},
		{"a password in a URL", name + "[nats]\nservers = [\"nats://u:p@127.0.0.1:4222\"]", `line 4: nats.servers[0]: has a name or a password in it, which logs would show: use user and password_file`},
		{"servers elsewhere", name + "[nats]\nservers = [\"nats://192.0.2.1:4222\"]", `line 4: nats.servers[0]: nats://192.0.2.1:4222 is not on this machine, and [nats.tls] is not set: name a certificate, its key and the CA`},
		{"two ways in", name + "[nats]\nservers = [\"nats://127.0.0.1:4222\"]\ntoken_file = \"/t\"\ncredentials = \"/c\"", `line 6: nats.credentials: choose one of user, token_file and credentials`},
		{"replicas of one", name + "[nats]\nreplicas = 3", `line 4: nats.replicas: 3 copies need as many servers: set [nats.cluster] or servers, or choose 1`},
		{"replicas", name + "[nats]\nreplicas = 2\n[nats.cluster]\nname = \"c\"\nlisten = \"127.0.0.1:1\"\nroutes = [\"127.0.0.1\"]", "line 4: nats.replicas: 2: choose 1, 3 or 5\nline 5: nats.cluster.password_file: is missing: without [nats.tls] a password keeps other processes out of the cluster\nline 8: nats.cluster.routes[0]: \"127.0.0.1\": write HOST:PORT"},
		{"retention", name + "[retention]\nage = \"1s\"\nbytes = 1", "line 4: retention.age: 1s: choose 1m0s or more\nline 5: retention.bytes: 1: choose 67108864 to 1152921504606846976"},
		{"partitions", name + "[partitions]\nindex = 2\nof = 2", "line 4: partitions.index: 2: choose 0 to 1, one less than of"},
		{"share", name + "[partitions]\nof = 2\nshare = true", "line 5: partitions.share: is true, and of is 2: collectors that share the partitions find out how many they are: remove index and of, or share"},
		{"limits", name + "[limits]\nqueries = 0\nquery_time = \"1ms\"\nrequest_bytes = 5", "line 4: limits.queries: 0: choose 1 to 1024\nline 5: limits.query_time: 1ms: choose 10ms to 1h\nline 6: limits.request_bytes: 5: choose 1024 to 67108864"},
		{"region", name + "[[region]]\nname = \"c\"\ncollectors = [\"https://10.0.0.1:9470\"]\n[[region]]\nname = \"b\"\ncollectors = []", "line 4: region[0].name: \"c\" is taken: by another region, or by this collector\nline 5: region[0].collectors[0]: \"https://10.0.0.1:9470\" needs ca, certificate and key of the region\nline 8: region[1].collectors: 0 of them: name 1 to 16 of the region's collectors, as \"http://127.0.0.1:9470\""},
		{"link", name + "[[link]]\nends = [\"s1:p0\", \"s 2\"]\n[[link]]\nends = [\"s1:p0\", \"h1\"]", "line 4: link[0].ends[1]: \"s 2\" is no end of a link: write \"SWITCH:PORT\", or a host's name\nline 6: link[1].ends[0]: link[0] is plugged into s1:p0 already: a port has one cable"},
		{"ipfix", name + "[ipfix]\ntarget = \"x\"\ntheta = 2", "line 4: ipfix.target: \"x\": it is not a host and a port: write it as \"udp://192.0.2.1:4739\" or \"tcp://192.0.2.1:4739\"\nline 5: ipfix.theta: 2: choose a share above 0, up to 1"},
		{"two ways to paths", name + "paths = \"a\"\nlab = \"b\"", `line 4: collect.lab: paths names the flows' paths already: remove one of them`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c, err := ParseCollect([]byte(tt.text))
			if err == nil || c != nil {
				t.Fatalf("no fault found: %v", c)
			}
			got := err.Error()
			if tt.name == "syntax" { // the rest is the library's own
				got = got[:min(len(tt.want), len(got))]
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestCollectFile: faults name the file.
func TestCollectFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "c.toml")
	if err := os.WriteFile(file, []byte("[store]\nbytes = 1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := LoadCollect(file); err == nil || !strings.HasPrefix(err.Error(), file+":2: store.bytes: 1: choose ") {
		t.Errorf("%v", err)
	}
	if _, err := LoadCollect(file + ".none"); err == nil || !strings.Contains(err.Error(), "no such file") {
		t.Errorf("%v", err)
	}
}

// FuzzParseCollect: no file makes ParseCollect panic, each fault is one line, and what it
// accepts survives Dump.
func FuzzParseCollect(f *testing.F) {
	text, err := os.ReadFile("collect.toml")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Add([]byte("nats = 1\nlink = [1]\n[partitions]\nof = 99"))
	f.Add([]byte("[[nats.client]]\nswitch = -1\n[nats.cluster]\nname = 'x'"))
	f.Add([]byte("t = 0\nlink = [0b\n0"))
	f.Add([]byte("\"a\\nb\" = [0b\n0"))
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := ParseCollect(data)
		if err != nil {
			for _, fault := range err.(interface{ Unwrap() []error }).Unwrap() {
				if text := fault.Error(); text == "" || strings.ContainsRune(text, '\n') {
					t.Errorf("a fault of %d bytes is no line: %q", len(text), text)
				}
			}
			return
		}
		var dump bytes.Buffer
		if err := c.Dump(&dump); err != nil {
			t.Fatal(err)
		}
		again, err := ParseCollect(dump.Bytes())
		if err != nil {
			t.Fatalf("the dump does not load: %v\n%s", err, &dump)
		}
		if diff := cmp.Diff(c, again, cmpopts.EquateEmpty()); diff != "" {
			t.Error(diff)
		}
	})
}
