// Package bpf holds the XDP programs of the traffic source and sink, and their
// Go bindings. Compiled programs are kept in the tree, so that building needs no
// C compiler; run go generate after a change to the C files (clang 14 or newer).
package bpf

//go:generate go tool bpf2go -go-package bpf -tags linux -strip llvm-strip -target bpfel -cflags "-O2 -g -Wall -Werror -mcpu=v3 -idirafter /usr/include/x86_64-linux-gnu -idirafter /usr/include/aarch64-linux-gnu" Live live.c
//go:generate go tool bpf2go -go-package bpf -tags linux -strip llvm-strip -target bpfel -cflags "-O2 -g -Wall -Werror -mcpu=v3 -idirafter /usr/include/x86_64-linux-gnu -idirafter /usr/include/aarch64-linux-gnu" Sink sink.c
