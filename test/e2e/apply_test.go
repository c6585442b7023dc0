package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
)

func TestADeploymentRunsOnOnePhysicalClusterAndItsStatusComesBack(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	k := theLab.newCluster(t)
	must(t)(k.Run(ctx, "create", "namespace", "web"))
	web := k.In("web")

	must(t)(web.Apply(ctx, deployment("app", 3)))
	must(t)(web.Run(ctx, "rollout", "status", "deployment/app", "--timeout=3m"))
	h := theLab.homeOf(t, k, "web")
	if err := available(web, "app", 3); err != nil {
		t.Error(err)
	}
	if err := available(h.below(), "app", 3); err != nil {
		t.Error(err)
	}
	var above, below appsv1.Deployment
	get(t, web, &above, "deployment", "app")
	get(t, h.below(), &below, "deployment", "app")
	if err := want("targets", above.Annotations[placementv1alpha1.TargetsAnnotation], fmt.Sprintf(`{%q:{}}`, h.name)); err != nil {
		t.Error(err)
	}
	if err := want("UID that the copy names", below.Annotations[placementv1alpha1.UIDAnnotation], string(above.UID)); err != nil {
		t.Error(err)
	}
	other := theLab.east
	if h.name == "east" {
		other = theLab.west
	}
	found, err := ours(other, h.namespace)
	if err != nil || len(found) > 0 {
		t.Errorf("on %s there is %v (error %v), want nothing", other.name, found, err)
	}
}

func TestPodsAndReplicaSetsAreMirroredWithTheirOwners(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	k := theLab.newCluster(t)
	must(t)(k.Apply(ctx, deployment("app", 2)))
	must(t)(k.Run(ctx, "rollout", "status", "deployment/app", "--timeout=3m"))

	var d appsv1.Deployment
	get(t, k, &d, "deployment", "app")
	var sets appsv1.ReplicaSetList
	var pods corev1.PodList
	eventually(t, func() error {
		if _, err := k.Get(ctx, &sets, "replicasets", "-l", "app=app"); err != nil {
			return err
		}
		if _, err := k.Get(ctx, &pods, "pods", "-l", "app=app"); err != nil {
			return err
		}
		if len(sets.Items) != 1 || len(pods.Items) != 2 {
			return fmt.Errorf("%d ReplicaSets and %d Pods, want 1 and 2", len(sets.Items), len(pods.Items))
		}
		for _, pod := range pods.Items {
			if pod.Status.Phase != corev1.PodRunning {
				return fmt.Errorf("pod %s is %s", pod.Name, pod.Status.Phase)
			}
		}
		return nil
	})
	if owner := metav1.GetControllerOf(&sets.Items[0]); owner == nil || owner.UID != d.UID {
		t.Errorf("the ReplicaSet is owned by %v, want the Deployment %s", owner, d.UID)
	}
	for _, pod := range pods.Items {
		if owner := metav1.GetControllerOf(&pod); owner == nil || owner.UID != sets.Items[0].UID {
			t.Errorf("pod %s is owned by %v, want the ReplicaSet %s", pod.Name, owner, sets.Items[0].UID)
		}
	}
	eventually(t, func() error {
		described, err := k.Run(ctx, "describe", "deployment", "app")
		if err == nil && !strings.Contains(described, "ScalingReplicaSet") {
			err = fmt.Errorf("kubectl describe shows no event ScalingReplicaSet:\n%s", described)
		}
		return err
	})
}

func TestEditScaleAndRestartActBelow(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	k := theLab.newCluster(t)
	must(t)(k.Apply(ctx, deployment("app", 1)))
	rolledOut := func() {
		t.Helper()
		must(t)(k.Run(ctx, "rollout", "status", "deployment/app", "--timeout=3m"))
	}
	rolledOut()
	h := theLab.homeOf(t, k, "default")

	must(t)(k.Run(ctx, "scale", "deployment/app", "--replicas=4"))
	rolledOut()
	if err := available(h.below(), "app", 4); err != nil {
		t.Error(err)
	}
	must(t)(k.Run(ctx, "set", "image", "deployment/app", "app=nginx:1.30"))
	rolledOut()
	must(t)(k.Run(ctx, "rollout", "restart", "deployment/app"))
	rolledOut()
	var below appsv1.Deployment
	get(t, h.below(), &below, "deployment", "app")
	if err := want("image below", below.Spec.Template.Spec.Containers[0].Image, "nginx:1.30"); err != nil {
		t.Error(err)
	}
	if below.Spec.Template.Annotations["kubectl.kubernetes.io/restartedAt"] == "" {
		t.Error("the restart did not reach the copy")
	}
	if err := available(h.below(), "app", 4); err != nil {
		t.Error(err)
	}
}

func TestDeletingWaitsUntilTheCopiesAreGone(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	k := theLab.newCluster(t)
	must(t)(k.Run(ctx, "create", "namespace", "web"))
	web := k.In("web")
	must(t)(web.Run(ctx, "create", "configmap", "settings", "--from-literal=a=1"))
	must(t)(web.Apply(ctx, deployment("app", 2)))
	must(t)(web.Run(ctx, "rollout", "status", "deployment/app", "--timeout=3m"))
	h := theLab.homeOf(t, k, "web")

	must(t)(web.Run(ctx, "delete", "deployment", "app", "--timeout=3m"))
	if err := gone(h.below(), "deployment", "app"); err != nil {
		t.Error(err)
	}
	must(t)(k.Run(ctx, "delete", "namespace", "web", "--timeout=3m"))
	if err := gone(h.Kubectl, "namespace", h.namespace); err != nil {
		t.Error(err)
	}
}

func TestEqualNamesInTwoLogicalClustersAreTwoCopies(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	a, b := theLab.newCluster(t), theLab.newCluster(t)
	must(t)(a.Apply(ctx, deployment("app", 1)))
	must(t)(b.Apply(ctx, deployment("app", 2)))
	must(t)(a.Run(ctx, "rollout", "status", "deployment/app", "--timeout=3m"))
	must(t)(b.Run(ctx, "rollout", "status", "deployment/app", "--timeout=3m"))
	ha, hb := theLab.homeOf(t, a, "default"), theLab.homeOf(t, b, "default")
	if ha.namespace == hb.namespace {
		t.Fatalf("both are in the physical namespace %s", ha.namespace)
	}
	must(t)(a.Run(ctx, "delete", "deployment", "app", "--timeout=3m"))
	if err := available(hb.below(), "app", 2); err != nil {
		t.Error(err)
	}
	if err := available(b, "app", 2); err != nil {
		t.Error(err)
	}
}

func TestEveryKindOfWorkloadReportsWhatItDoes(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	k := theLab.newCluster(t)
	must(t)(k.Apply(ctx, manyKinds))
	must(t)(k.Run(ctx, "rollout", "status", "statefulset/db", "--timeout=3m"))
	must(t)(k.Run(ctx, "rollout", "status", "daemonset/agent", "--timeout=3m"))
	must(t)(k.Run(ctx, "wait", "--for=condition=complete", "job/once", "--timeout=3m"))
	must(t)(k.Run(ctx, "wait", "--for=condition=Ready", "pod/single", "--timeout=3m"))
	must(t)(k.Run(ctx, "wait", "--for=jsonpath={.status.phase}=Bound", "persistentvolumeclaim/own", "--timeout=3m"))

	h := theLab.homeOf(t, k, "default")
	names := strings.Fields(must(t)(h.below().Run(ctx, "get", "services,ingresses,poddisruptionbudgets,horizontalpodautoscalers,networkpolicies,cronjobs,persistentvolumeclaims",
		"-l", "atoll.dev/managed-by,!atoll.dev/supply", "-o", "name")))
	names = slices.DeleteFunc(names, isClaimOfSet)
	slices.Sort(names)
	if err := want("copies", names, []string{
		"cronjob.batch/nightly", "horizontalpodautoscaler.autoscaling/db", "ingress.networking.k8s.io/front",
		"networkpolicy.networking.k8s.io/closed", "persistentvolumeclaim/own", "poddisruptionbudget.policy/db", "service/db",
	}); err != nil {
		t.Error(err)
	}
	must(t)(k.Run(ctx, "delete", "all,ingresses,poddisruptionbudgets,networkpolicies,persistentvolumeclaims", "--all", "--timeout=3m"))
	eventually(t, func() error {
		left, err := ours(h.physicalCluster, h.namespace)
		if err == nil {
			err = want("left below", slices.DeleteFunc(left, func(o string) bool {
				return strings.HasPrefix(o, "Namespace/") || strings.HasPrefix(o, "ConfigMap/") || isClaimOfSet(o)
			}), []string{})
		}
		return err
	})
}

// isClaimOfSet: the claims that a StatefulSet made outlive it, as everywhere.
func isClaimOfSet(name string) bool { return strings.Contains(name, "/data-db-") }

const manyKinds = `
apiVersion: v1
kind: Service
metadata: {name: db}
spec: {clusterIP: None, selector: {app: db}, ports: [{port: 5432}]}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db}
spec:
  replicas: 2
  serviceName: db
  selector: {matchLabels: {app: db}}
  template:
    metadata: {labels: {app: db}}
    spec: {containers: [{name: db, image: postgres, volumeMounts: [{name: data, mountPath: /data}]}]}
  volumeClaimTemplates:
    - metadata: {name: data}
      spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
---
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: agent}
spec:
  selector: {matchLabels: {app: agent}}
  template:
    metadata: {labels: {app: agent}}
    spec: {containers: [{name: agent, image: agent}]}
---
apiVersion: batch/v1
kind: Job
metadata: {name: once}
spec: {template: {spec: {restartPolicy: Never, containers: [{name: c, image: busybox, command: [sleep, "1"]}]}}}
---
apiVersion: batch/v1
kind: CronJob
metadata: {name: nightly}
spec: {schedule: "0 3 * * *", jobTemplate: {spec: {template: {spec: {restartPolicy: Never, containers: [{name: c, image: busybox}]}}}}}
---
apiVersion: v1
kind: Pod
metadata: {name: single}
spec: {containers: [{name: c, image: busybox}]}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: own}
spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: db}
spec: {minAvailable: 1, selector: {matchLabels: {app: db}}}
---
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: db}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: StatefulSet, name: db}
  maxReplicas: 3
  minReplicas: 2
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: closed}
spec: {podSelector: {matchLabels: {app: db}}}
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: front}
spec: {rules: [{host: db.example, http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: db, port: {number: 5432}}}}]}}]}
`

// The templates that it brings back are those that were mirrored from below.
func TestRolloutUndoBringsBackWhatTheUserWrote(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	k := theLab.newCluster(t)
	must(t)(k.Apply(ctx, `
apiVersion: v1
kind: ServiceAccount
metadata: {name: robot}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: settings}
data: {a: "1"}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: app}
spec:
  selector: {matchLabels: {app: app}}
  template:
    metadata: {labels: {app: app}, annotations: {a: b}}
    spec:
      serviceAccountName: robot
      priorityClassName: system-node-critical
      tolerations: [{operator: Exists}]
      containers:
      - {name: app, image: "nginx:1.29", envFrom: [{configMapRef: {name: settings}}], resources: {requests: {cpu: 1m}},
         env: [{name: NS, valueFrom: {fieldRef: {fieldPath: metadata.namespace}}}], ports: [{containerPort: 80}]}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db}
spec:
  serviceName: db
  selector: {matchLabels: {app: db}}
  template:
    metadata: {labels: {app: db}}
    spec: {serviceAccountName: robot, containers: [{name: app, image: "nginx:1.29", envFrom: [{configMapRef: {name: settings}}]}]}
`))
	for _, object := range []string{"deployment/app", "statefulset/db"} {
		rolledOut := func() {
			t.Helper()
			must(t)(k.Run(ctx, "rollout", "status", object, "--timeout=3m"))
		}
		template := func() string {
			return must(t)(k.Run(ctx, "get", object, "-o", "jsonpath={.spec.template}"))
		}
		rolledOut()
		before := template()
		must(t)(k.Run(ctx, "set", "image", object, "app=nginx:1.30"))
		rolledOut()
		must(t)(k.Run(ctx, "rollout", "undo", object))
		rolledOut()
		if after := template(); after != before {
			t.Errorf("%s: before\n%s\nafter\n%s", object, before, after)
		}
	}
}
