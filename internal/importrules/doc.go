// Package importrules holds the tests that keep the layout true: who may import
// whom, what stays out of the packet path, where a foreign package may be used.
// The rules stand in rules_test.go, each with its reason; a package without a
// rule fails the test, so that a new one gets its place when it is made.
package importrules
