package xdp

// The object is built for both byte orders and committed, so building Weir needs no
// clang. `go generate` needs clang, llvm-strip and the headers of libbpf-dev and
// linux-libc-dev.
//go:generate go tool bpf2go -go-package xdp -tags linux -cflags "-O2 -g -Wall -Werror -I/usr/include/x86_64-linux-gnu" -target bpfel,bpfeb -strip llvm-strip redirect redirect.c
