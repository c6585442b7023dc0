// Package lab makes physical clusters whose pods are real, and a server, for tests that
// run as root. Each physical cluster is one localcluster process without simulated nodes
// and one node: containerd, and a kubelet and kube-proxy of localnode, in a network
// namespace of their own, with images that are made here.
//
//	this machine
//	 '- the test binary: Main ........ starts itself again, and cleans up
//	     '- namespaces of processes, mounts and network, all of which end with their
//	        first process: the test binary once more, which runs the tests
//	         |- atoll               172.30.0.1
//	         |- localcluster east   172.31.1.1    <- kubelet east (and, for west, atoll-syncer)
//	         |- a resolver for names outside: 172.31.1.1
//	         |- network namespace of the node east: 172.31.1.2, pods 10.200.1.0/24
//	         |- load balancers of east: 10.201.1.0/24 -> ports of its node
//	         |- localcluster west   172.31.2.1, and so on
//	         '- routes between all of them: a flat network
//
// Nodes enforce the NetworkPolicies of their physical cluster: see the package policies.
//
// Whatever is started ends with the first process of the namespaces, also if the tests are
// killed: mounts, routes and settings of the kernel that a kubelet changes are seen by
// nobody outside. What is left are the data and the control groups, which Main removes.
package lab
