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
	// HelperLabel is on a helper: the UID of its claim. It has no mark: nothing mirrors it, and no
	// user reaches it.
	HelperLabel = "atoll.dev/copies-claim"
	// helperControlPlane says for which control plane.
	helperControlPlane = "atoll.dev/copies-for"
	helperContainer    = "copy"
	helperVolume       = "volume"
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
//	any other                    any                   any         any                none
func (p planner) role() Role {
	entry, recorded := p.entry(), p.recordedVolume()
	if !p.Ref.Kind.IsClaim() || p.logical != logicalLive || p.copy != copyCurrent || p.physical != physicalOurs || p.Physical.GetDeletionTimestamp() != nil {
		return RoleNone
	}
	switch {
	case entry.State == placementv1alpha1.TargetStateDraining && recorded != nil && recorded.Released && recorded.Content != nil && p.copiedElsewhere():
		return RoleSend
	case entry.Keeps() && entry.Volume != nil && entry.Volume.Copied && (recorded == nil || recorded.Filled == nil):
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

// helper is what has to be done about the pod that reads or fills the volume of a claim.
//
//	role           recorded  the pod                     then
//	send or fill   another   any                         WriteCopy: the record comes first
//	send or fill   it        none                        MakeHelper
//	send or fill   it        ended and has not said      DeleteHelper: another one is made
//	                         what it wrote, of another
//	                         claim below, or not as it
//	                         is wanted
//	send or fill   it        there                       Wait, see copyingDelay: WriteCopy says what it does,
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
		said := p.Copy.Status
		status := p.status(said.State, said.Reason, said.Message)
		if status.Volume == nil {
			status.Volume = &placementv1alpha1.CopyVolume{}
		}
		status.Volume.Helper = &placementv1alpha1.VolumeHelper{Name: name}
		return p.write(status, p.Logical.GetUID())
	}
	return []Action{{Verb: MakeHelper, Object: p.helperObject(role), Why: string(role)}}
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
		return role != RoleFill || filledBy(pod, p.entry().Volume.From) == nil
	}
	return false
}

// ofThisClaim says that a helper was made for the claim that is on the physical cluster now. What one has
// written that was made for another one of its name went with that.
func (p planner) ofThisClaim(pod *corev1.Pod) bool { return metav1.IsControlledBy(pod, p.Physical) }

// noHelper is why there can be no helper although there is to be one; nil if there can.
func (p planner) noHelper() *Failure {
	switch pod := p.Volume.Helper; {
	case pod != nil && !p.ownHelper(pod):
		return &Failure{Reason: "HelperNotOurs", Message: "a pod of the name " + pod.Name + " that was made by somebody else is on the physical cluster"}
	case p.role() != RoleNone && p.helperClass().Copy == nil:
		return &Failure{Reason: "VolumeNotCopied", Message: "volumes of the class are not declared to be copied here"}
	}
	return nil
}

// helperBeforeRemoval: a helper ends before the claim that it mounts.
func (p planner) helperBeforeRemoval() (_ []Action, done bool) {
	pod := p.Volume.Helper
	switch {
	case pod == nil || !p.ownHelper(pod):
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
	case pod == nil || !p.ownHelper(pod):
	default:
		out.Helper = &placementv1alpha1.VolumeHelper{Name: pod.Name, UID: pod.UID}
		out.Helper.Ready, out.Helper.Message = helperState(pod)
		if role == RoleFill && out.Filled == nil && pod.Name == HelperName(p.ControlPlane, p.claimUID(), RoleFill) && p.ofThisClaim(pod) && pod.Status.Phase == corev1.PodSucceeded {
			if out.Filled = filledBy(pod, entry.Volume.From); out.Filled == nil {
				out.Helper.Message = "it ended, and did not say what it copied"
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

// ownHelper says that a pod was made for the claim, as what else has its name was not.
func (p planner) ownHelper(pod *corev1.Pod) bool {
	return pod.Labels[HelperLabel] == string(p.claimUID()) && pod.Labels[helperControlPlane] == p.ControlPlane
}

// helperClass is what an admin declared of the class of the claim.
func (p planner) helperClass() fleetv1alpha1.ClassVolumes {
	return p.class(storageClassAbove(p.Physical.Object))
}

// makeHelper is a pod that sends or fills the volume of the claim. It may do what the level baseline of
// Pod Security permits: it is root, as it reads files of whatever owner and gives files theirs, and has no other
// right on its node, no token, and nobody who reaches its port but by the API server.
func (p planner) makeHelper(role Role) *corev1.Pod {
	declared := p.helperClass().Copy
	if declared == nil {
		declared = &fleetv1alpha1.VolumeCopy{}
	}
	capabilities := []corev1.Capability{"DAC_OVERRIDE"}
	if role == RoleFill {
		capabilities = []corev1.Capability{"CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID"}
	}
	quantities := func(cpu, memory string) corev1.ResourceList {
		return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory)}
	}
	return &corev1.Pod{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: p.Namespace.Name, Name: HelperName(p.ControlPlane, p.claimUID(), role),
			Labels: map[string]string{HelperLabel: string(p.claimUID()), helperControlPlane: p.ControlPlane},
			// It is of this claim only, and no ReplicaSet of a tenant takes it for one of its pods.
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "PersistentVolumeClaim", Name: p.Ref.Name, UID: p.Physical.GetUID(), Controller: ptr.To(true)}},
		},
		Spec: corev1.PodSpec{
			RestartPolicy: corev1.RestartPolicyOnFailure, AutomountServiceAccountToken: ptr.To(false), EnableServiceLinks: ptr.To(false), TerminationGracePeriodSeconds: ptr.To[int64](5),
			SecurityContext: &corev1.PodSecurityContext{
				RunAsUser: ptr.To[int64](0), RunAsGroup: ptr.To[int64](0), RunAsNonRoot: ptr.To(false),
				SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
			},
			Volumes: []corev1.Volume{{Name: helperVolume, VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: p.Ref.Name, ReadOnly: role == RoleSend},
			}}},
			Containers: []corev1.Container{{
				Name: helperContainer, Image: declared.Image,
				Args:         []string{string(role), "--claim", string(p.claimUID()), "--port", strconv.Itoa(HelperPort), "--max-bytes", strconv.FormatInt(declared.MaxBytes.Value(), 10)},
				VolumeMounts: []corev1.VolumeMount{{Name: helperVolume, MountPath: "/volume", ReadOnly: role == RoleSend}},
				Resources:    corev1.ResourceRequirements{Requests: quantities("20m", "64Mi"), Limits: quantities("1", "512Mi")},
				SecurityContext: &corev1.SecurityContext{
					Privileged: ptr.To(false), AllowPrivilegeEscalation: ptr.To(false), ReadOnlyRootFilesystem: ptr.To(true),
					Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}, Add: capabilities},
				},
			}},
		},
	}
}

func (p planner) helperObject(role Role) *unstructured.Unstructured {
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(p.makeHelper(role))
	if err != nil {
		panic(err) // no field of a Pod can fail to convert
	}
	delete(object, "status")
	return &unstructured.Unstructured{Object: object}
}

// HelperTried is the pod that would read the volume of the claim once its move stops what uses it; nil
// if there is no need to know now whether the physical cluster takes it.
func HelperTried(in Input) *unstructured.Unstructured {
	p := planner{Input: in, logical: classifyLogical(in), copy: classifyCopy(in), physical: classifyPhysical(in)}
	if !p.Ref.Kind.IsClaim() || p.logical != logicalLive || p.physical != physicalOurs || !p.onItsWay() ||
		p.entry().State == placementv1alpha1.TargetStateDraining || p.helperClass().Copy == nil {
		return nil
	}
	return p.helperObject(RoleSend)
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
	obj := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Pod"}}
	obj.SetNamespace(pod.Namespace)
	obj.SetName(pod.Name)
	return obj
}
