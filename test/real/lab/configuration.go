//go:build linux

package lab

// configuration is the files of a node, by name.
//
// What is unusual: nothing is shared with another node on the machine, so that each
// directory, socket and control group has a name; the disk may be as full as it wants;
// control groups of version 1 will do; and a container may be made without the right to
// lower its score for the out-of-memory killer, which root in a container lacks.
//
// Pods are connected by the plugin ptp: also what one says to another on the same node
// goes through the rules of kube-proxy, whatever modules the kernel has.
var configuration = map[string]string{
	"containerd.toml": `version = 2
root = "$DIR/containerd"
state = "/run/containerd-$NAME"
[grpc]
  address = "$DIR/containerd.sock"
[plugins."io.containerd.internal.v1.opt"]
  path = "$DIR/opt"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "$PAUSE"
  disable_apparmor = true
  restrict_oom_score_adj = true
  netns_mounts_under_state_dir = true
  stream_server_address = "127.0.0.1"
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "$CNI"
    conf_dir = "$DIR/cni"
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "overlayfs"
    default_runtime_name = "runc"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
        SystemdCgroup = false
`,
	"cni/pods.conflist": `{"cniVersion": "1.0.0", "name": "$NAME", "plugins": [{
  "type": "ptp", "ipMasq": false,
  "ipam": {"type": "host-local", "dataDir": "$DIR/addresses", "ranges": [[{"subnet": "$PODS"}]], "routes": [{"dst": "0.0.0.0/0"}]}
}]}
`,
	"resolv.conf": "nameserver $SERVER\n",
	"kubelet.yaml": `apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
containerRuntimeEndpoint: unix://$DIR/containerd.sock
address: $ADDRESS
healthzBindAddress: 127.0.0.1
readOnlyPort: 0
authentication: {anonymous: {enabled: false}, webhook: {enabled: true}, x509: {clientCAFile: $PKI/ca.crt}}
authorization: {mode: Webhook}
tlsCertFile: $PKI/kubelet.crt
tlsPrivateKeyFile: $PKI/kubelet.key
failCgroupV1: false
cgroupDriver: cgroupfs
cgroupRoot: /$GROUP
enforceNodeAllocatable: []
makeIPTablesUtilChains: false
failSwapOn: false
imageGCHighThresholdPercent: 100
imageGCLowThresholdPercent: 99
evictionHard: {memory.available: 50Mi, nodefs.available: 0%, nodefs.inodesFree: 0%, imagefs.available: 0%, imagefs.inodesFree: 0%}
containerLogMaxSize: 200Mi
podLogsDir: $DIR/logs
volumePluginDir: $DIR/plugins
resolvConf: $DIR/resolv.conf
clusterDomain: cluster.local
clusterDNS: [10.96.0.10]
nodeStatusUpdateFrequency: 5s
`,
	"kube-proxy.yaml": `apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
mode: nftables
hostnameOverride: $NODE
clusterCIDR: $PODS
clientConnection: {kubeconfig: $PKI/kube-proxy.kubeconfig}
conntrack: {maxPerCore: 0, min: 0, tcpEstablishedTimeout: 0s, tcpCloseWaitTimeout: 0s}
`,
}
