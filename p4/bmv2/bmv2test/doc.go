// Package bmv2test gives tests of other packages the programs of BMv2, compiled P4 programs, and switches that run in
// network namespaces of their own and end with the test.
//
//	tools := bmv2test.Find(t)
//	sw := bmv2test.Start(t, tools, bmv2test.Compile(t, tools, "../v1model/weir.p4"), "wx")
package bmv2test
