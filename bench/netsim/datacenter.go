package netsim

import "fmt"

// FatTree builds the fat tree of k-port switches (Al-Fares, Loukissas, Vahdat,
// SIGCOMM 2008): k pods of k/2 edge and k/2 aggregation switches, and (k/2)^2
// core switches, of which the j-th group of k/2 joins the j-th aggregation
// switches of all pods. k is even. Between pods a path has 5 switches.
func FatTree(k int) (*Graph, error) {
	if k < 2 || k%2 != 0 || k > 128 {
		return nil, fmt.Errorf("fat tree: k is %d, not an even number in 2..128", k)
	}
	half := k / 2
	var nodes []Node
	var links []Link
	add := func(edge bool, format string, a ...any) int {
		nodes = append(nodes, Node{ID: len(nodes), Label: fmt.Sprintf(format, a...), Edge: edge})
		return len(nodes) - 1
	}
	core := make([]int, half*half)
	for i := range core {
		core[i] = add(false, "core%d", i)
	}
	for pod := range k {
		aggregation := make([]int, half)
		for j := range aggregation {
			aggregation[j] = add(false, "agg%d.%d", pod, j)
			for c := range half {
				links = append(links, Link{core[j*half+c], aggregation[j]})
			}
		}
		for e := range half {
			edge := add(true, "edge%d.%d", pod, e)
			for _, a := range aggregation {
				links = append(links, Link{a, edge})
			}
		}
	}
	return NewGraph(fmt.Sprintf("fattree%d", k), nodes, links)
}

// SpineLeaf builds a network in which each of the leafs, where the hosts are,
// has a link to each of the spines.
func SpineLeaf(spines, leafs int) (*Graph, error) {
	if spines < 1 || leafs < 1 {
		return nil, fmt.Errorf("spine and leaf: %d spines and %d leafs: both must be at least 1", spines, leafs)
	}
	var nodes []Node
	var links []Link
	for s := range spines {
		nodes = append(nodes, Node{ID: s, Label: fmt.Sprintf("spine%d", s)})
	}
	for l := range leafs {
		nodes = append(nodes, Node{ID: spines + l, Label: fmt.Sprintf("leaf%d", l), Edge: true})
		for s := range spines {
			links = append(links, Link{s, spines + l})
		}
	}
	return NewGraph(fmt.Sprintf("spineleaf%dx%d", spines, leafs), nodes, links)
}
