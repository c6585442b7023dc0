// Package pods serves the subresources of pods that reach into their containers: log,
// exec, attach and portforward.
//
//	Locate   where a pod runs: pure
//	REST     reads what Locate needs, and makes the reach.Call
//	Connect  exec, attach, portforward; Log  log
//	Streams  how many there are at a time
//
// Upstream's storage asks the kubelet of the pod's node. Here a node is a physical cluster,
// whose API server is asked, over a reach.Link.
//
// Invariant: what is sent down is made of the options that admission has seen, and of what the
// server itself recorded about the pod.
//
// Read next: Locate, docs/decisions/0036-reaching-down.md.
package pods
