// Package controller is the control plane of one P4 switch that runs p4/v1model/weir.p4 on BMv2
// in a Weir switch's place: it loads the tables of a configuration, learns stations
// from digests and forgets those that fell silent, and writes each epoch's schedule before it begins.
package controller
