// Package cluster runs one Kubernetes cluster inside the process: etcd,
// kube-apiserver, kube-controller-manager and kube-scheduler as their upstream
// packages, nodes and pods simulated by kwok, and a small simulation of a storage
// driver. Everything above the kubelet is real: API, RBAC, admission,
// controllers, scheduling, garbage collection.
//
// Start brings the parts up in order (lock and settings, keys, etcd, API server,
// controllers, nodes, volumes) and returns once pods can be scheduled; Wait
// returns after they were stopped in the reverse order, because the context
// ended or because one of them failed. The data directory holds all state:
//
//	admin.kubeconfig   the way in
//	cluster.json       name and port, kept over restarts
//	etcd/ pki/         what the components keep
//	lock               held while the cluster runs
//
// Kubernetes registers metrics, feature gates and informer names per process, so
// that a process can hold one cluster only: run one process for each.
package cluster
