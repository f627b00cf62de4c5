// Package config reads a switch's configuration: one strict TOML file, whose
// tables are the Config types of the packages that they configure.
//
//	[switch]         Switch, below             [stages.NAME]  the stage's Config
//	[dataplane]      port.DataplaneConfig      [control]      control.Config
//	[workers]        worker.Config             [log]          Log, below
//	[[port]]         port.Config
//
// Load refuses unknown keys, wrong types and values that no package wants, and
// reports all of it at once, each with the file, the line, the full key and
// the remedy. What it returns is complete: every default is filled in, and
// Dump writes it as a file that loads again to the same. The TOML files in this
// folder are examples; reference.toml explains every key.
package config
