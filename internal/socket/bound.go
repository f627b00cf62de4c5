package socket

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// acceptsConnections is a flag of listening sockets (__SO_ACCEPTCON of include/linux/net.h).
const acceptsConnections = 1 << 16

// maxPath is the longest path of a unix socket, in bytes (struct sockaddr_un, with its end).
const maxPath = 107

// Hidden is the name under which this process makes the socket of a path, before it renames it. The kernel goes on listing
// the socket under that name, by which Bound knows the path.
func Hidden(path string) string {
	hidden := fmt.Sprintf("%s/.%d.%s", filepath.Dir(path), os.Getpid(), filepath.Base(path))
	if len(hidden) > maxPath {
		return fmt.Sprintf("%s/.%d", filepath.Dir(path), os.Getpid())
	}
	return hidden
}

// Bound returns the path of the socket that a process listens on and made by a Hidden name; empty if it has none, or may not
// be asked.
func Bound(process string) string {
	folder := filepath.Join("/proc", process)
	files, err := os.ReadDir(filepath.Join(folder, "fd"))
	if err != nil {
		return ""
	}
	inodes := map[string]bool{}
	for _, f := range files {
		target, _ := os.Readlink(filepath.Join(folder, "fd", f.Name()))
		if inode, ok := strings.CutPrefix(target, "socket:["); ok {
			inodes[strings.TrimSuffix(inode, "]")] = true
		}
	}
	for path, inode := range listening(process) {
		if inodes[inode] {
			return path
		}
	}
	return ""
}

// Listens reports whether a process of this network namespace listens on a path that it made by a Hidden name.
func Listens(path string) bool { return listening("thread-self")[path] != "" }

// listening has the inodes of listening sockets with Hidden names in a process's network namespace, by their paths.
func listening(process string) map[string]string {
	text, err := os.ReadFile(filepath.Join("/proc", process, "net/unix"))
	if err != nil {
		return nil
	}
	found := map[string]string{}
	for line := range strings.Lines(string(text)) {
		// Num RefCount Protocol Flags Type St Inode Path
		fields := strings.Fields(line)
		if len(fields) != 8 {
			continue
		}
		flags, err := strconv.ParseUint(fields[3], 16, 32)
		if err != nil || flags&acceptsConnections == 0 {
			continue
		}
		pid, base, _ := strings.Cut(strings.TrimPrefix(filepath.Base(fields[7]), "."), ".")
		if _, err := strconv.Atoi(pid); err == nil && base != "" {
			found[filepath.Join(filepath.Dir(fields[7]), base)] = fields[6]
		}
	}
	return found
}
