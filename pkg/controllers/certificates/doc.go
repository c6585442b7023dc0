// Package certificates signs certificates for users of logical clusters, and
// removes requests that are old, as kube-controller-manager does for one cluster.
//
//	signer                                        approved requests
//	kubernetes.io/kube-apiserver-client           signed, for their logical cluster only, or Failed
//	kubernetes.io/kube-apiserver-client-kubelet   left alone: nodes belong to physical clusters
//	kubernetes.io/kubelet-serving                 left alone: likewise
//	kubernetes.io/legacy-unknown, any other       left alone: they are for signers of their own
//
// Who may approve and who may sign is up to RBAC of the logical cluster; upstream's
// admission plugins ask it.
//
// Invariant: of a request come the key, the name, the groups, the time and the
// usages, and nothing else; in which logical cluster the certificate is good, the
// server says. No certificate names what is reserved for the system.
//
// decide.go is pure; controller.go reads one request from an informer over all
// logical clusters, and writes once. Requests that wait to become old are entries
// of the queue.
package certificates
