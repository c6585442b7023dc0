package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

const (
	// LeaseNamespace is the namespace of "root" that holds one Lease for each
	// physical cluster, named after it. Its syncer renews it: the heartbeat.
	LeaseNamespace = "atoll-system"
	// CopiesFinalizer keeps a PhysicalCluster while copies may exist on it.
	CopiesFinalizer = "fleet.atoll.dev/copies"
)

// Condition types of a PhysicalCluster.
const (
	// ConditionReady is True while the physical cluster answers and its syncer
	// reports; Unknown when the syncer is silent; False when the syncer says
	// that it cannot work, with the reason.
	ConditionReady = "Ready"
	// ConditionSyncing is True while a syncer holds all its watches.
	ConditionSyncing = "Syncing"
	// ConditionDrained is there while a drain is requested: True when nothing is placed there
	// and its syncer has seen that nothing of ours is left; else the message has what
	// is left and what keeps it.
	ConditionDrained = "Drained"
	// ConditionPodsReachServer is True if pods there get an address of the control plane;
	// False if nobody said which.
	ConditionPodsReachServer = "PodsReachServer"
	// ConditionPodsResolveNames is True if atoll-dns there is ready to answer pods with the names
	// of their logical cluster.
	ConditionPodsResolveNames = "PodsResolveNames"
	// ConditionPodsAdmitted is True if pods that controllers make there are admitted by their
	// logical cluster, where it has webhooks or policies for pods; False if nobody asks it.
	ConditionPodsAdmitted = "PodsAdmitted"
	// ConditionIsolatingPolicies is True if namespaces of logical clusters there get
	// NetworkPolicies that keep pods of other logical clusters out. Whether the network
	// enforces NetworkPolicies it does not say.
	ConditionIsolatingPolicies = "IsolatingPolicies"
)

// TaintUnreachable is the key of the NoExecute taint that a physical cluster has while it
// does not answer. It is in no spec: policies name it to say for how long they bear that.
const TaintUnreachable = GroupName + "/unreachable"

// ReasonDeadlineExceeded is that of the condition Drained when the deadline of a drain has passed, and
// something has not begun to leave.
const ReasonDeadlineExceeded = "DeadlineExceeded"

// Reasons of the Ready condition.
const (
	ReasonHeartbeat         = "Heartbeat"
	ReasonNoHeartbeat       = "NoHeartbeat"
	ReasonHeartbeatLost     = "HeartbeatLost"
	ReasonInvalidKubeconfig = "InvalidKubeconfig"
	ReasonUnreachable       = "Unreachable"
	ReasonForbidden         = "Forbidden"
	// ReasonNotWatching: something of what a syncer watches cannot be watched.
	ReasonNotWatching = "NotWatching"
	// ReasonTooLarge: the physical cluster shows more objects of ours than a syncer keeps.
	ReasonTooLarge = "TooLarge"
	// ReasonIncompatibleSyncer: the server and the syncer are of versions that do not work
	// together. It is the reason of the refused requests, too.
	ReasonIncompatibleSyncer = "IncompatibleSyncer"
)

// +genclient
// +genclient:nonNamespaced
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// PhysicalCluster is a real Kubernetes cluster on which copies may run.
type PhysicalCluster struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what the admin asks for.
	// +optional
	Spec PhysicalClusterSpec `json:"spec,omitempty"`
	// status is what the syncer reports and the server concludes.
	// +optional
	Status PhysicalClusterStatus `json:"status,omitempty"`
}

// PhysicalClusterSpec is the desired state of a PhysicalCluster.
type PhysicalClusterSpec struct {
	// connection says who syncs: an agent in the physical cluster (Pull) or
	// the server with a kubeconfig (Push).
	// +optional
	Connection Connection `json:"connection,omitempty"`
	// unschedulable (cordon) lets the physical cluster keep what it has, but
	// receive nothing new.
	// +optional
	Unschedulable bool `json:"unschedulable,omitempty"`
	// taints keep placements away that do not tolerate them. The server sets timeAdded of
	// those with the effect NoExecute.
	// +optional
	// +listType=atomic
	Taints []corev1.Taint `json:"taints,omitempty"`
	// bounds is the most that placements may request here in sum, and the most of
	// what the physical cluster says to have that counts when others are weighed
	// against it. What they requested when they came counts also if it reports less.
	// For a resource that is not named it is trusted with what it says.
	// "count/namespaces" is the most namespaces that are placed here, which the
	// server counts itself. "count/objects" and "memory/objects" are the most objects of
	// ours, and bytes of memory for them, that the syncer keeps of what the physical
	// cluster shows; by default as many as what is placed here is likely to make.
	// "count/orphans" is the most Orphans, by default 2,000, and "bytes/written" the most
	// bytes that the syncer writes in root within ten minutes, by default 256Mi.
	// +optional
	Bounds corev1.ResourceList `json:"bounds,omitempty"`
	// tenancy is what objects of logical clusters may do on the physical cluster beyond
	// the default, which keeps tenants apart.
	// +optional
	Tenancy Tenancy `json:"tenancy,omitzero"`
	// pods says how pods on the physical cluster reach the control plane.
	// +optional
	Pods Pods `json:"pods,omitzero"`
	// identity confirms which cluster is meant: the UID of its namespace
	// kube-system. Empty means the one of the first contact, which
	// status.identity.uid records. Only an admin can write it.
	// +optional
	Identity types.UID `json:"identity,omitempty"`
	// emptied confirms that the physical cluster has lost everything that was on
	// it, and that all is to be made anew: the time in status.identity.emptied.
	// +optional
	Emptied *metav1.Time `json:"emptied,omitempty"`
	// volumes say what becomes of the volumes of storage classes when what uses them moves.
	// Those of a class that is not here keep it where it is.
	// +optional
	// +listType=map
	// +listMapKey=storageClass
	Volumes []ClassVolumes `json:"volumes,omitempty"`
	// orphans orders what becomes of all Orphans of the physical cluster that have
	// no order of their own.
	// +optional
	Orphans *OrphansOrder `json:"orphans,omitempty"`
	// drain asks that everything moves off the physical cluster.
	// +optional
	Drain Drain `json:"drain,omitzero"`
	// forget declares the physical cluster lost for good: its copies count as
	// removed although nobody saw them go, and what is placed there starts elsewhere by
	// policy. Claims keep their namespace until they are deleted. Status keeps the report.
	// +optional
	Forget bool `json:"forget,omitempty"`
}

// Pods says how pods on a physical cluster reach the control plane.
type Pods struct {
	// server is the URL of the control plane as pods reach it, https://HOST[:PORT]. Its
	// certificate has to name the host, and kubernetes.default.svc if that is an address.
	// Empty takes the one of all physical clusters (--pods-server), if there is one.
	// Without any, pods get no access to their logical cluster.
	// +optional
	Server string `json:"server,omitempty"`
	// names says who answers pods there with the names of their logical cluster.
	// +optional
	Names Names `json:"names,omitzero"`
	// admission has the pods that controllers make there admitted by their logical cluster:
	// by its webhooks and policies. Without it only pods that users make are.
	// +optional
	Admission *PodAdmission `json:"admission,omitempty"`
	// network is the name of the network of the pods there. Pods on all physical clusters with
	// the same one reach each other by their addresses, of which no two have the same one: the
	// Services of a logical cluster lead to its pods on all of them. Empty: pods reach those of
	// their own physical cluster only.
	// +optional
	Network string `json:"network,omitempty"`
}

// NetworkStatus is what is known of the pods of the other physical clusters of a network.
type NetworkStatus struct {
	// podCIDRs are the ranges that their pods have addresses from, nodeCIDRs the addresses among
	// them that nodes send from themselves.
	// +optional
	// +listType=set
	PodCIDRs []string `json:"podCIDRs,omitempty"`
	// +optional
	// +listType=set
	NodeCIDRs []string `json:"nodeCIDRs,omitempty"`
	// unknown are those of the physical clusters whose ranges are not known, or do not count:
	// nobody can tell their pods from who is no pod.
	// +optional
	// +listType=set
	Unknown []string `json:"unknown,omitempty"`
	// overlapping are those of the physical clusters whose ranges have addresses of pods here: whose
	// pod has one nobody can tell.
	// +optional
	// +listType=set
	Overlapping []string `json:"overlapping,omitempty"`
}

// PodAdmission says how the API server of a physical cluster asks its syncer about pods, which
// has to serve there (--admission-address). Either service or url is set; neither, if the
// connection is of type Push and the server says itself how it is reached (--admission-url).
type PodAdmission struct {
	// service is that of a syncer which runs in the physical cluster.
	// +optional
	Service *PodAdmissionService `json:"service,omitempty"`
	// url is that of a syncer which runs elsewhere, https://HOST[:PORT].
	// +optional
	URL string `json:"url,omitempty"`
	// whenUnavailable says what becomes of pods while the control plane does not answer: Refuse, the
	// default, or Admit, as the controller made them.
	// +optional
	WhenUnavailable UnavailablePolicy `json:"whenUnavailable,omitempty"`
}

// PodAdmissionService is a Service of a physical cluster.
type PodAdmissionService struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// port defaults to 443.
	// +optional
	Port int32 `json:"port,omitempty"`
}

// UnavailablePolicy says what becomes of pods of which nobody can be asked.
type UnavailablePolicy string

const (
	// UnavailableRefuse makes no pods, which controllers try again. The default.
	UnavailableRefuse UnavailablePolicy = "Refuse"
	// UnavailableAdmit makes them without what the logical cluster has to say.
	UnavailableAdmit UnavailablePolicy = "Admit"
)

// Names says where the names of logical clusters are answered on a physical cluster.
type Names struct {
	// namespace of the physical cluster where atoll-dns runs. Pods of logical clusters ask it
	// then: setting it, or another one, starts those of Deployments, StatefulSets and
	// DaemonSets anew, once atoll-dns is ready. Empty leaves pods to the DNS of the physical
	// cluster, which knows other names.
	// +optional
	Namespace string `json:"namespace,omitempty"`
}

// PodsAccess is how pods on a physical cluster reach the control plane.
type PodsAccess struct {
	// server is its URL.
	Server string `json:"server"`
	// caBundle are the certificates, as PEM, that its own is signed by.
	CABundle []byte `json:"caBundle"`
}

// BoundNamespaces is the key of bounds for the number of namespaces.
const BoundNamespaces corev1.ResourceName = "count/namespaces"

// BoundObjects and BoundObjectsMemory are the keys of bounds for what a syncer keeps of the
// objects that the physical cluster shows.
const (
	BoundObjects       corev1.ResourceName = "count/objects"
	BoundObjectsMemory corev1.ResourceName = "memory/objects"
)

// BoundOrphans and BoundWritten are the keys of bounds for what a syncer writes in root.
const (
	BoundOrphans corev1.ResourceName = "count/orphans"
	BoundWritten corev1.ResourceName = "bytes/written"
)

// Drain asks that everything moves off a physical cluster.
type Drain struct {
	// requested moves everything off the physical cluster, which receives nothing new
	// meanwhile. Taking it off cancels: what has not begun to leave stays. The condition
	// Drained says how far it is.
	// +optional
	Requested bool `json:"requested,omitempty"`
	// maxMoving is how many units leave the physical cluster at a time by this drain; they are
	// not counted with what else moves then. Absent: ten, and as long as not more than ten move
	// to any one physical cluster, and twenty for all drains.
	// +optional
	MaxMoving int32 `json:"maxMoving,omitempty"`
	// deadline is until when something may begin to leave by this drain. What has not begun by then
	// stays, and the condition Drained is False, DeadlineExceeded; what moves goes on, and nothing
	// new comes. It removes nothing. A later one continues. Absent: for ever.
	// +optional
	Deadline *metav1.Time `json:"deadline,omitempty"`
}

// ConnectionType says who opens the connection.
type ConnectionType string

const (
	// ConnectionPull means that an agent beside the physical cluster connects
	// to the server. The default.
	ConnectionPull ConnectionType = "Pull"
	// ConnectionPush means that the server connects to the physical cluster.
	ConnectionPush ConnectionType = "Push"
)

// Connection describes how the physical cluster is reached.
type Connection struct {
	// type is Pull or Push. Defaults to Pull.
	// +optional
	Type ConnectionType `json:"type,omitempty"`
	// kubeconfigSecretRef names the Secret in "root" that holds, under the key
	// "kubeconfig", the way in. Required for Push, forbidden for Pull.
	// +optional
	KubeconfigSecretRef *SecretReference `json:"kubeconfigSecretRef,omitempty"`
}

// KubeconfigKey is the key of a kubeconfig in its Secret.
const KubeconfigKey = "kubeconfig"

// SecretReference names a Secret of "root".
type SecretReference struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
}

// FeatureOrdinals says that a physical cluster can run a range of the ordinals of a StatefulSet: its
// Kubernetes has spec.ordinals for good, since v1.31, and its syncer knows of ranges.
const FeatureOrdinals = "Ordinals"

// FeatureManifests says that the syncer of a physical cluster applies what Manifests carry.
const FeatureManifests = "Manifests"

// PhysicalClusterStatus is the observed state of a PhysicalCluster.
type PhysicalClusterStatus struct {
	// conditions: Ready, Syncing, Drained, PodsReachServer, PodsResolveNames, PodsAdmitted.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// controlPlane is the id that marks the copies of this control plane on
	// the physical cluster (label atoll.dev/managed-by). Set by the server.
	// +optional
	ControlPlane string `json:"controlPlane,omitempty"`
	// identity says which cluster this is.
	// +optional
	Identity PhysicalClusterIdentity `json:"identity,omitzero"`
	// version is the Kubernetes version, such as v1.37.1.
	// +optional
	Version string `json:"version,omitempty"`
	// features are what the syncer can do there that not every version of it, or of
	// Kubernetes, can: Manifests, which it applies, and Ordinals, of which StatefulSets can have a range.
	// +optional
	// +listType=set
	Features []string `json:"features,omitempty"`
	// syncer is the version of the syncer that reported last, or was refused last; absent for one
	// that says none.
	// +optional
	Syncer *SyncerVersion `json:"syncer,omitempty"`
	// nodes is the number of nodes that are ready and schedulable.
	// +optional
	Nodes int32 `json:"nodes,omitempty"`
	// capacity is the sum over the nodes.
	// +optional
	Capacity corev1.ResourceList `json:"capacity,omitempty"`
	// allocatable is the sum over the ready, schedulable nodes.
	// +optional
	Allocatable corev1.ResourceList `json:"allocatable,omitempty"`
	// requested is the sum of the requests of all pods that run there, ours
	// and others.
	// +optional
	Requested corev1.ResourceList `json:"requested,omitempty"`
	// apis are the served resources as <group>/<version>/<resource>; the core
	// group is empty: "/v1/pods".
	// +optional
	// +listType=set
	APIs []string `json:"apis,omitempty"`
	// storageClasses are the names of the storage classes; a default one is
	// listed first and named in defaultStorageClass.
	// +optional
	// +listType=set
	StorageClasses []string `json:"storageClasses,omitempty"`
	// +optional
	DefaultStorageClass string `json:"defaultStorageClass,omitempty"`
	// runtimeHandlers are what those RuntimeClasses of the physical cluster offer with which
	// spec.tenancy lets pods run. Absent: not known, as its syncer does not report them or may
	// not list RuntimeClasses. Present without names: there are none.
	// +optional
	RuntimeHandlers *ReportedNames `json:"runtimeHandlers,omitempty"`
	// ingressClasses are the IngressClasses of the physical cluster, absent or without names
	// as runtimeHandlers.
	// +optional
	IngressClasses *ReportedNames `json:"ingressClasses,omitempty"`
	// priorityClasses are the PriorityClasses of the physical cluster, absent or without names
	// as runtimeHandlers.
	// +optional
	PriorityClasses *ReportedNames `json:"priorityClasses,omitempty"`
	// volumeSnapshotClasses are the VolumeSnapshotClasses of the physical cluster. Absent: not
	// known, as it does not serve them, or its syncer does not report them or may not list them.
	// +optional
	VolumeSnapshotClasses *ReportedSnapshotClasses `json:"volumeSnapshotClasses,omitempty"`
	// podCIDRs are the ranges of addresses that its nodes give to pods, joined as far as they
	// are one.
	// +optional
	// +listType=set
	PodCIDRs []string `json:"podCIDRs,omitempty"`
	// nodeCIDRs are the addresses among them that nodes may send from themselves: the first two
	// of each range of a node.
	// +optional
	// +listType=set
	NodeCIDRs []string `json:"nodeCIDRs,omitempty"`
	// network is what the server knows of the pods of the other physical clusters of
	// spec.pods.network; absent without such a network. Set by the server.
	// +optional
	Network *NetworkStatus `json:"network,omitempty"`
	// orphans counts what is on the physical cluster and belongs to nothing here;
	// it is listed as Orphans.
	// +optional
	Orphans OrphanCounts `json:"orphans,omitzero"`
	// pods is how pods there reach the control plane; absent if they do not, as the condition PodsReachServer says. Set by the server.
	// +optional
	Pods *PodsAccess `json:"pods,omitempty"`
	// drain is how far the drain is; absent while none is requested.
	// +optional
	Drain *DrainStatus `json:"drain,omitempty"`
	// forgotten reports what spec.forget gave up.
	// +optional
	Forgotten *ForgetReport `json:"forgotten,omitempty"`
}

// SyncerVersion is what a syncer says of itself; nobody has verified it.
type SyncerVersion struct {
	// version is that of its build, such as v0.1.0; empty if it says none.
	// +optional
	Version string `json:"version,omitempty"`
	// revision is that of the contract with the server which it speaks.
	Revision int32 `json:"revision"`
	// refusedAt is when a server last refused to work with it, which is written every 20 s while
	// it asks; absent if it works.
	// +optional
	RefusedAt *metav1.Time `json:"refusedAt,omitempty"`
}

// DrainStatus is how far a drain is.
type DrainStatus struct {
	// startedAt is when the server noticed that the drain was requested, ended how many of
	// namespaces are gone since.
	// +optional
	StartedAt *metav1.Time `json:"startedAt,omitempty"`
	// +optional
	Ended int32 `json:"ended,omitempty"`
	// estimatedSeconds is how long it takes until those that can leave have left, if they go on
	// as they did since startedAt; absent if none has left yet.
	// +optional
	EstimatedSeconds int32 `json:"estimatedSeconds,omitempty"`
	// namespaces counts those that are on the physical cluster or still leave it, moving
	// those of them that are on their way.
	// +optional
	Namespaces int32 `json:"namespaces"`
	// +optional
	Moving int32 `json:"moving"`
	// stuck are those of moving that have not become available where they go for five minutes:
	// as many as may move at a time stop the drain.
	// +optional
	Stuck int32 `json:"stuck,omitempty"`
	// queued are those that wait until fewer move.
	// +optional
	Queued int32 `json:"queued,omitempty"`
	// copies counts the records of copies on it.
	// +optional
	Copies int32 `json:"copies"`
	// blocked are those that cannot move, blockers the first 20 of them, with the reason.
	// +optional
	Blocked int32 `json:"blocked,omitempty"`
	// +optional
	// +listType=atomic
	Blockers []DrainBlocker `json:"blockers,omitempty"`
	// seen is what the syncer found when it looked last. It is the evidence of the
	// condition Drained.
	// +optional
	Seen *DrainEvidence `json:"seen,omitempty"`
}

// DrainBlocker is a namespace that a drain cannot move.
type DrainBlocker struct {
	LogicalCluster string `json:"logicalCluster"`
	Namespace      string `json:"namespace"`
	// reason is a CamelCase word, message the sentence for people.
	Reason  string `json:"reason"`
	Message string `json:"message"`
}

// DrainEvidence is what is on a physical cluster with the mark of this control plane.
type DrainEvidence struct {
	// at is when all of it was listed there, by whom.
	At metav1.Time `json:"at"`
	By string      `json:"by"`
	// objects is how many there were, counts how many of which resource.
	Objects int32 `json:"objects"`
	// +optional
	// +listType=atomic
	Counts []ResourceCount `json:"counts,omitempty"`
	// digest is the SHA-256 of their UIDs, sorted, each with a line end.
	Digest string `json:"digest"`
}

// ResourceCount counts the objects of one resource.
type ResourceCount struct {
	// resource is <resource>.<group>; without the group for the core group.
	Resource string `json:"resource"`
	Count    int32  `json:"count"`
}

// ForgetReport says what was given up when a physical cluster was forgotten.
type ForgetReport struct {
	// at is when the report was last changed.
	At metav1.Time `json:"at"`
	// copies counts the copies that were declared gone without proof.
	Copies int32 `json:"copies"`
	// sample lists up to 20 of them as <logical cluster>/<namespace>/<resource>/<name>.
	// +optional
	// +listType=atomic
	Sample []string `json:"sample,omitempty"`
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// PhysicalClusterList is a list of PhysicalClusters.
type PhysicalClusterList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []PhysicalCluster `json:"items"`
}

// MaxReportedNames is how many of a kind a physical cluster may report.
const MaxReportedNames = 1_000

// ReportedNames are what a physical cluster has of a kind, by name.
type ReportedNames struct {
	// names are sorted.
	// +optional
	// +listType=set
	Names []string `json:"names,omitempty"`
}

// ReportedSnapshotClasses are the VolumeSnapshotClasses of a physical cluster.
type ReportedSnapshotClasses struct {
	// classes are sorted by name.
	// +optional
	// +listType=map
	// +listMapKey=name
	Classes []SnapshotClass `json:"classes,omitempty"`
}

// SnapshotClass is a VolumeSnapshotClass without its parameters, which may name Secrets.
type SnapshotClass struct {
	Name string `json:"name"`
	// driver makes its snapshots.
	Driver string `json:"driver"`
	// deletionPolicy is Delete if snapshots go with their objects, or Retain.
	DeletionPolicy string `json:"deletionPolicy"`
}

// Reported are the names; none if it is not known which there are.
func (r *ReportedNames) Reported() []string {
	if r == nil {
		return nil
	}
	return r.Names
}
