// Package importrules holds the tests that keep the layout true: who may import
// whom, what stays out of the packet path, where a foreign package may be used.
// The rules are in rules_test.go, each with its reason; a package without a
// rule fails the test, so that a new one gets its rule when it is added.
package importrules
