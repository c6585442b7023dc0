package syncer

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/stamp"
	"github.com/atoll-dev/atoll/pkg/volume"
	"github.com/atoll-dev/atoll/pkg/volume/content"
)

const (
	// HelperPort is where a helper listens, on the loopback address of its pod.
	HelperPort = 7270
	// HelperLabel is on what is made beside a volume, a helper or a snapshot: the UID of its claim.
	// It has no mark: nothing mirrors it, and no user reaches it.
	HelperLabel = "atoll.dev/copies-claim"
	// helperControlPlane says for which control plane.
	helperControlPlane = "atoll.dev/copies-for"
	helperContainer    = "copy"
	helperVolume       = "volume"
	helperPath         = "/volume"
	// sendingInterval is how often it is looked who uses a volume that is read.
	sendingInterval = 5 * time.Second
)

// Role is what a helper does with the volume of its claim.
type Role string

const (
	// RoleNone: there is to be none.
	RoleNone Role = ""
	RoleSend Role = "send"
	RoleFill Role = "receive"
	// RoleMount mounts what was restored from a snapshot, and ends: some volumes are not made before.
	RoleMount Role = "mount"
)

// HelperName is the name of the helper of a claim: of each role another one.
func HelperName(controlPlane string, claim types.UID, role Role) string {
	sum := sha256.Sum256([]byte(controlPlane + "/" + string(claim) + "/" + string(role)))
	return "atoll-copy-" + hex.EncodeToString(sum[:12])
}

// HelperOf is the name of the helper that is to be looked at; empty if there is none.
func HelperOf(in Input) string {
	p := planner{Input: in, logical: classifyLogical(in), copy: classifyCopy(in), physical: classifyPhysical(in)}
	if v := p.recordedVolume(); v != nil && v.Helper != nil {
		return v.Helper.Name
	}
	if p.Logical != nil {
		if role := p.role(); role != RoleNone {
			return HelperName(p.ControlPlane, p.Logical.GetUID(), role)
		}
	}
	return ""
}

// role is what the helper of the claim is to do.
//
//	entry here                   elsewhere             the claim   its Copy says      then
//	Draining                     one that data are     ours        released, with     send
//	                             copied into from here             content
//	data are copied into it      any                   ours        not filled         fill
//	it is restored               any                   ours        not filled         mount
//	any other                    any                   any         any                none
func (p planner) role() Role {
	entry, recorded := p.entry(), p.recordedVolume()
	if !p.Ref.Kind.IsClaim() || p.logical != logicalLive || p.copy != copyCurrent || p.physical != physicalOurs || p.Physical.GetDeletionTimestamp() != nil {
		return RoleNone
	}
	switch {
	case entry.State == placementv1alpha1.TargetStateDraining && recorded != nil && recorded.Released && recorded.Content != nil && recorded.Content.Driver == "" && p.copiedElsewhere():
		return RoleSend
	case entry.Keeps() && entry.Volume != nil && entry.Volume.Copied && (recorded == nil || recorded.Filled == nil):
		if entry.Volume.Snapshot != nil {
			return RoleMount
		}
		return RoleFill
	}
	return RoleNone
}

// copiedElsewhere says that data are copied from here.
func (p planner) copiedElsewhere() bool {
	for name, other := range stamp.TargetsOf(p.Logical.GetAnnotations()) {
		if name != p.Target && other.Keeps() && other.Volume != nil && other.Volume.Copied && other.Volume.From == p.Target {
			return true
		}
	}
	return false
}

// helper is what has to be done about the pod that reads, fills or mounts the volume of a claim.
//
//	role           recorded  the pod                     then
//	any but none   another   any                         WriteCopy: the record comes first
//	any but none   it        none                        MakeHelper
//	any but none   it        ended and has not said      DeleteHelper: another one is made
//	                         what it wrote, of another
//	                         claim below, or not as it
//	                         is wanted
//	any but none   it        there                       Wait, see copyingDelay: WriteCopy says what it does,
//	                                                     see helperReport
//	none           it        there                       DeleteHelper
//	none           it        being deleted               Wait
//	none           it        none                        WriteCopy without it, see helperReport
func (p planner) helper() []Action {
	if !p.Ref.Kind.IsClaim() {
		return nil
	}
	role, pod, recorded := p.role(), p.Volume.Helper, p.recordedVolume()
	if role == RoleNone && pod == nil {
		return nil
	}
	if !p.Volume.Looked {
		return []Action{{Verb: LookAtVolume, Why: "Helper"}}
	}
	name := HelperName(p.ControlPlane, p.claimUID(), role)
	switch {
	case pod != nil && pod.DeletionTimestamp != nil:
		return wait(volumeInterval, "HelperEnds")
	case pod != nil && (role == RoleNone || pod.Name != name || !p.ofThisClaim(pod) || p.endedForNothing(pod, role) || helperDiffers(pod, p.makeHelper(role))):
		return []Action{{Verb: DeleteHelper, UID: pod.UID, Object: helperNamed(pod), Why: "HelperDone"}}
	case pod != nil:
		return wait(copyingDelay(pod, role), "Copying")
	case recorded == nil || recorded.Helper == nil || recorded.Helper.Name != name:
		return p.recordBeside(func(v *placementv1alpha1.CopyVolume) { v.Helper = &placementv1alpha1.VolumeHelper{Name: name} })
	}
	return []Action{{Verb: MakeHelper, Object: p.helperObject(role), Why: string(role)}}
}

// recordBeside writes down what is about to be made beside a volume.
func (p planner) recordBeside(note func(*placementv1alpha1.CopyVolume)) []Action {
	said := p.Copy.Status
	status := p.status(said.State, said.Reason, said.Message)
	if status.Volume == nil {
		status.Volume = &placementv1alpha1.CopyVolume{}
	}
	note(status.Volume)
	return p.write(status, p.Logical.GetUID())
}

// copyingDelay is when to look at a helper again. One that sends says nothing of its own, and who else uses the
// volume is a question about all pods of the namespace and all attachments.
func copyingDelay(pod *corev1.Pod, role Role) time.Duration {
	if ready, _ := helperState(pod); ready && role == RoleSend {
		return sendingInterval
	}
	return volumeInterval
}

// endedForNothing says that a helper ended, and that nothing follows from it. One that sends ends by itself if its
// node is shut down.
func (p planner) endedForNothing(pod *corev1.Pod, role Role) bool {
	switch pod.Status.Phase {
	case corev1.PodFailed:
		return true
	case corev1.PodSucceeded:
		return role == RoleSend || p.filled(pod) == nil
	}
	return false
}

// ofThisClaim says that a helper was made for the claim that is on the physical cluster now. What one has
// written that was made for another one of its name went with that.
func (p planner) ofThisClaim(pod *corev1.Pod) bool { return metav1.IsControlledBy(pod, p.Physical) }

// noHelper is why there can be no helper although there is to be one; nil if there can.
func (p planner) noHelper() *Failure {
	switch pod := p.Volume.Helper; {
	case pod != nil && !p.ownBeside(pod):
		return &Failure{Reason: "HelperNotOurs", Message: "a pod of the name " + pod.Name + " that was made by somebody else is on the physical cluster"}
	case p.role() == RoleMount && p.helperClass().Snapshot == nil, p.role() != RoleMount && p.role() != RoleNone && p.helperClass().Copy == nil:
		return &Failure{Reason: "VolumeNotCopied", Message: "volumes of the class are not declared to be copied here"}
	}
	return nil
}

// helperBeforeRemoval: a helper ends before the claim that it mounts.
func (p planner) helperBeforeRemoval() (_ []Action, done bool) {
	pod := p.Volume.Helper
	switch {
	case pod == nil || !p.ownBeside(pod):
		return nil, true
	case pod.DeletionTimestamp != nil:
		return wait(volumeInterval, "HelperEnds"), false
	}
	return []Action{{Verb: DeleteHelper, UID: pod.UID, Object: helperNamed(pod), Why: "Removing"}}, false
}

// helperReport is what the Copy is to say of the helper, and of what it did.
//
//	the pod                    says                                     then
//	ended well, fills the      the sum of what it read again            Filled, as long as this claim is there
//	claim that is there
//	ended well, mounted the    nothing                                  Filled, if the claim was made from the
//	claim that is there                                                 snapshot
//	is there                   any                                      Helper
//	none                       any, and there is to be one              Helper as recorded
//	none                       any                                      no Helper
func (p planner) helperReport(out, recorded *placementv1alpha1.CopyVolume) {
	entry, pod, role := p.entry(), p.Volume.Helper, p.role()
	if entry.Volume != nil && entry.Volume.Copied && recorded != nil && p.Copy.Status.PhysicalUID == p.Physical.GetUID() && (out.Name == "" || recorded.Name == "" || out.Name == recorded.Name) {
		out.Filled = recorded.Filled
	}
	switch {
	case pod == nil && role != RoleNone && recorded != nil && recorded.Helper != nil && recorded.Helper.Name == HelperName(p.ControlPlane, p.claimUID(), role):
		out.Helper = &placementv1alpha1.VolumeHelper{Name: recorded.Helper.Name, Message: recorded.Helper.Message}
	case pod == nil || !p.ownBeside(pod):
	default:
		out.Helper = &placementv1alpha1.VolumeHelper{Name: pod.Name, UID: pod.UID}
		out.Helper.Ready, out.Helper.Message = helperState(pod)
		if (role == RoleFill || role == RoleMount) && out.Filled == nil && pod.Name == HelperName(p.ControlPlane, p.claimUID(), role) && p.ofThisClaim(pod) && pod.Status.Phase == corev1.PodSucceeded {
			if out.Filled = p.filled(pod); out.Filled == nil {
				out.Helper.Message = "it ended, and the volume is not known to have the data"
			}
		}
	}
}

// helperState is whether a helper can be connected to, and else why not.
func helperState(pod *corev1.Pod) (ready bool, message string) {
	message = pod.Status.Message
	for _, c := range pod.Status.ContainerStatuses {
		switch {
		case c.State.Waiting != nil:
			message = c.State.Waiting.Reason + " " + c.State.Waiting.Message
		case c.State.Terminated != nil:
			message = c.State.Terminated.Reason
		}
	}
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			message = c.Reason + ": " + c.Message
		}
		ready = ready || c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	}
	return ready && pod.Status.Phase == corev1.PodRunning && pod.DeletionTimestamp == nil, bounded(message)
}

// filled is what follows from a helper that ended well; nil if nothing does. One that mounts says nothing: that it ran
// shows that the volume of the claim is there, and the claim which snapshot it was made from.
func (p planner) filled(pod *corev1.Pod) *placementv1alpha1.VolumeFilled {
	v, pv := p.entry().Volume, p.Volume.Object
	switch {
	case v.Snapshot == nil:
		return filledBy(pod, v.From)
	case pv == nil || pv.Spec.CSI == nil || pv.Spec.CSI.Driver != v.Snapshot.Driver || pv.Spec.ClaimRef == nil || pv.Spec.ClaimRef.UID != p.Physical.GetUID():
		return nil
	case p.Volume.SnapshotContent == nil || handleOf(p.Volume.SnapshotContent) != v.Snapshot.Handle || p.unready() != "" || !p.isRestored():
		return nil
	}
	return &placementv1alpha1.VolumeFilled{From: v.From, Snapshot: v.Snapshot.Handle}
}

// filledBy is what a helper that ended well says; nil if that is nothing that it can have done.
func filledBy(pod *corev1.Pod, from string) *placementv1alpha1.VolumeFilled {
	for _, c := range pod.Status.ContainerStatuses {
		if c.Name != helperContainer || c.State.Terminated == nil || c.State.Terminated.ExitCode != 0 {
			continue
		}
		var sum content.Sum
		if json.Unmarshal([]byte(c.State.Terminated.Message), &sum) != nil {
			return nil
		}
		f := &placementv1alpha1.VolumeFilled{From: from, Digest: sum.Digest, Bytes: sum.Bytes, Entries: sum.Entries, Omitted: sum.Omitted}
		if len(volume.ValidateFilled(f, nil)) > 0 {
			return nil
		}
		return f
	}
	return nil
}

func (p planner) claimUID() types.UID {
	if p.Logical != nil {
		return p.Logical.GetUID()
	}
	return p.Copy.Spec.Object.UID
}

// ownBeside says that a pod, or what belongs to a snapshot, was made for the claim, as what else has its name was not.
func (p planner) ownBeside(obj metav1.Object) bool {
	labels := obj.GetLabels()
	return labels[HelperLabel] == string(p.claimUID()) && labels[helperControlPlane] == p.ControlPlane
}

func (p planner) labelsBeside() map[string]string {
	return map[string]string{HelperLabel: string(p.claimUID()), helperControlPlane: p.ControlPlane}
}

// beside is an empty object that is made for the claim.
func (p planner) beside(kind schema.GroupVersionKind, name string) *unstructured.Unstructured {
	obj := &unstructured.Unstructured{Object: map[string]any{}}
	obj.SetGroupVersionKind(kind)
	obj.SetName(name)
	obj.SetLabels(p.labelsBeside())
	return obj
}

// ofClaimBelow has an object go with the claim on the physical cluster, and be of this claim only.
func (p planner) ofClaimBelow() metav1.OwnerReference {
	return metav1.OwnerReference{APIVersion: "v1", Kind: "PersistentVolumeClaim", Name: p.Ref.Name, UID: p.Physical.GetUID(), Controller: ptr.To(true)}
}

// helperClass is what an admin declared of the class of the claim.
func (p planner) helperClass() fleetv1alpha1.ClassVolumes {
	return p.class(storageClassAbove(p.Physical.Object))
}

// makeHelper is a pod that sends or fills the volume of the claim. It may do what the level baseline of
// Pod Security permits: it is root, as it reads files of whatever owner and gives files theirs, and has no other
// right on its node, no token, and nobody who reaches its port but by the API server.
func (p planner) makeHelper(role Role) *corev1.Pod {
	image, args := p.helperCommand(role)
	capabilities, user := []corev1.Capability{"DAC_OVERRIDE"}, int64(0)
	switch role {
	case RoleFill:
		capabilities = []corev1.Capability{"CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID"}
	case RoleMount:
		capabilities, user = nil, nobody
	}
	quantities := func(cpu, memory string) corev1.ResourceList {
		return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory)}
	}
	pod := &corev1.Pod{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: p.Namespace.Name, Name: HelperName(p.ControlPlane, p.claimUID(), role),
			Labels: p.labelsBeside(),
			// No ReplicaSet of a tenant takes it for one of its pods.
			OwnerReferences: []metav1.OwnerReference{p.ofClaimBelow()},
		},
		Spec: corev1.PodSpec{
			RestartPolicy: corev1.RestartPolicyOnFailure, AutomountServiceAccountToken: ptr.To(false), EnableServiceLinks: ptr.To(false), TerminationGracePeriodSeconds: ptr.To[int64](5),
			SecurityContext: &corev1.PodSecurityContext{
				RunAsUser: ptr.To(user), RunAsGroup: ptr.To(user), RunAsNonRoot: ptr.To(user != 0),
				SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
			},
			Volumes: []corev1.Volume{{Name: helperVolume, VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: p.Ref.Name, ReadOnly: role != RoleFill},
			}}},
			Containers: []corev1.Container{{
				Name: helperContainer, Image: image, Args: args,
				Resources: corev1.ResourceRequirements{Requests: quantities("20m", "64Mi"), Limits: quantities("1", "512Mi")},
				SecurityContext: &corev1.SecurityContext{
					Privileged: ptr.To(false), AllowPrivilegeEscalation: ptr.To(false), ReadOnlyRootFilesystem: ptr.To(true),
					Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}, Add: capabilities},
				},
			}},
		},
	}
	p.mountVolume(&pod.Spec.Containers[0], role)
	return pod
}

// nobody is the user of a pod that only mounts.
const nobody = 65534

// helperCommand is what a helper runs, as far as an admin has declared it.
func (p planner) helperCommand(role Role) (image string, args []string) {
	args = []string{string(role), "--claim", string(p.claimUID())}
	switch declared := p.helperClass(); {
	case role == RoleMount && declared.Snapshot != nil:
		return declared.Snapshot.Image, args
	case role != RoleMount && declared.Copy != nil:
		return declared.Copy.Image, append(args, "--port", strconv.Itoa(HelperPort), "--max-bytes", strconv.FormatInt(declared.Copy.MaxBytes.Value(), 10))
	}
	return "", args
}

// mountVolume has the container of a helper have the volume, which has no files if it is a block volume.
func (p planner) mountVolume(c *corev1.Container, role Role) {
	if p.Logical != nil && volume.ClaimOf(p.Logical.Object).Block {
		c.VolumeDevices = []corev1.VolumeDevice{{Name: helperVolume, DevicePath: helperPath}}
		return
	}
	c.VolumeMounts = []corev1.VolumeMount{{Name: helperVolume, MountPath: helperPath, ReadOnly: role != RoleFill}}
}

func (p planner) helperObject(role Role) *unstructured.Unstructured {
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(p.makeHelper(role))
	if err != nil {
		panic(err) // no field of a Pod can fail to convert
	}
	delete(object, "status")
	return &unstructured.Unstructured{Object: object}
}

// Tried is what would be made beside the volume of the claim once its move stops what uses it, the pod that reads
// it or a snapshot; nil if there is no need to know now whether the physical cluster takes it.
func Tried(in Input) *unstructured.Unstructured {
	p := planner{Input: in, logical: classifyLogical(in), copy: classifyCopy(in), physical: classifyPhysical(in)}
	if !p.Ref.Kind.IsClaim() || p.logical != logicalLive || p.physical != physicalOurs || !p.onItsWay() || p.entry().State == placementv1alpha1.TargetStateDraining {
		return nil
	}
	switch declared := p.helperClass(); {
	case declared.Copy != nil:
		return p.helperObject(RoleSend)
	case declared.Snapshot != nil:
		return p.takenSnapshot()
	}
	return nil
}

// helperDiffers says that what an admin declared of helpers is not what a pod was made by.
func helperDiffers(pod, wanted *corev1.Pod) bool {
	if len(pod.Spec.Containers) != 1 {
		return false // somebody adds to pods here
	}
	has, wants := pod.Spec.Containers[0], wanted.Spec.Containers[0]
	return wants.Image != "" && has.Image != wants.Image || !slices.Equal(has.Args, wants.Args)
}

func helperNamed(pod *corev1.Pod) *unstructured.Unstructured {
	return namedAs(corev1.SchemeGroupVersion.WithKind("Pod"), pod)
}

func besideNamed(obj *unstructured.Unstructured) *unstructured.Unstructured {
	return namedAs(obj.GroupVersionKind(), obj)
}

func namedAs(kind schema.GroupVersionKind, of metav1.Object) *unstructured.Unstructured {
	obj := &unstructured.Unstructured{Object: map[string]any{}}
	obj.SetGroupVersionKind(kind)
	obj.SetNamespace(of.GetNamespace())
	obj.SetName(of.GetName())
	return obj
}
