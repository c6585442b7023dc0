package cluster

import (
	"crypto/x509/pkix"
	"maps"
)

// Who a real node needs, by the names of their keys and kubeconfigs in pki/.
const (
	kubelet       = "kubelet"
	kubeProxy     = "kube-proxy"
	kubeletClient = "kubelet-client" // the API server, when it calls the kubelet
)

// RealNodeName is the name of the real node of a cluster.
func RealNodeName(cluster string) string { return cluster + "-node" }

// users are those who get a client certificate for a cluster.
func (p pki) users(o Options) map[string]pkix.Name {
	all := maps.Clone(users)
	if o.RealNode != "" {
		all[kubelet] = pkix.Name{CommonName: "system:node:" + RealNodeName(o.Name), Organization: []string{"system:nodes"}}
		all[kubeProxy] = pkix.Name{CommonName: "system:kube-proxy"}
		all[kubeletClient] = pkix.Name{CommonName: "kube-apiserver-kubelet-client", Organization: []string{"system:masters"}}
	}
	return all
}

// realNodeFlags are the flags of an API server that depend on whether its pods are real:
// those call it by the Service kubernetes, and it calls their kubelet.
func realNodeFlags(keys pki, o Options) []string {
	if o.RealNode == "" {
		return []string{"--endpoint-reconciler-type=none"} // a loopback address is not a valid endpoint
	}
	return []string{
		"--advertise-address=" + o.Bind,
		"--kubelet-client-certificate=" + keys.path(kubeletClient+".crt"),
		"--kubelet-client-key=" + keys.path(kubeletClient+".key"),
		"--kubelet-certificate-authority=" + keys.path("ca.crt"),
		"--kubelet-preferred-address-types=InternalIP",
	}
}
