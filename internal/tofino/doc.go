// Tofino compiles the programs of p4/tna with the open Tofino back end of
// p4c, assembles them, and shows as a table what they need. The compiler reports success
// for programs that do not fit; the assembler refuses them. And the compiler may
// split the tables and registers of a program without a word: what it lists for
// each stage is what counts, so the program fails if one needs more stages than it may
// have, or if a register is in two stages. It warns where the compiler has
// lost what a parser selects by, as some versions do: then the table describes the stages,
// and the program does not work. Of each program it says how many warnings of which kinds
// compiler and assembler had, and where those of the program's own sources are.
//
// With -check FILE it warns where the table of a program in a Markdown file is not the one that it
// has just printed. p4c of August 2026 gives the same tables as published and with pull request
// 5753, which has it select; another p4c may place otherwise.
//
// The variables P4C_BAREFOOT and BFAS say where compiler and assembler are, if not
// on the PATH. A compiler that is not installed needs -I with the folder of core.p4 and tna.p4.
package main
