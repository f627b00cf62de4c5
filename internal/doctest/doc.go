// Package doctest holds the test that runs every command of the documentation.
//
// A fenced block of README.md, CONTRIBUTING.md, p4/README.md or docs/*.md whose language is
// sh is a script; in one whose language is console, a line that begins with
// "$ " is a command and what follows is what it prints. The blocks of a file
// run in order in a copy of the tree that has bin/weir; a block fails if a
// command of it fails. A block of toml is a file to be loaded. A comment in front of a block says more:
//
//	<!-- doctest: netns -->        needs root; runs in a network namespace of this file's own
//	<!-- doctest: needs ip -->     runs programs that Debian may lack; skips without them
//	<!-- doctest: output -->       (console) compares the output with the block
//	<!-- doctest: exit 2 -->       (sh) ends with this status
//	<!-- doctest: background X --> (sh) one command, which goes on during the blocks behind
//	                               it once it printed X, and at SIGTERM ends with status 0
//	<!-- doctest: config -->       (toml) is a switch's configuration
//	<!-- doctest: lab -->          (toml) is a lab file
//	<!-- doctest: long -->         is left out under -short
//	<!-- doctest: skip REASON -->  is not run
//
// Several marks are separated by semicolons. With WEIR_REQUIRE_NETNS=1 only
// the last two let a block be skipped. Where output is compared, numbers may
// differ, and a line "..." matches any lines. `go test ./internal/doctest
// -update` writes what was printed into the files.
//
// Targets of make that would run this test again, or all others, or need compilers that are no part
// of Weir, are only checked for being there (make -n). Other tests hold the links between the
// documents, ARCHITECTURE's list of packages and the list of drop reasons to the tree.
package doctest
