//go:build linux

package real

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/test/real/lab"
)

// statefulDatabase makes its claim itself: it is mirrored, and becomes a copy when its namespace leaves.
const statefulDatabase = `
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db}
spec:
  serviceName: db
  selector: {matchLabels: {app: db}}
  template:
    metadata: {labels: {app: db}}
    spec:
      terminationGracePeriodSeconds: 1
      containers:
      - {name: tools, image: "` + lab.ToolsImage + `", args: [hold], volumeMounts: [{name: data, mountPath: /data}]}
  volumeClaimTemplates:
  - metadata: {name: data}
    spec: {storageClassName: files, accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Mi}}}
`

// hostile fills a volume with what would lead out of it, or be too much, if it were believed.
func hostile(t *testing.T, dir string) {
	t.Helper()
	at := func(name ...string) string { return filepath.Join(append([]string{dir}, name...)...) }
	deep := at(strings.Split(strings.Repeat("d/", 60)+"d", "/")...)
	errs := []error{
		os.Symlink("/", at("root")), os.Symlink("../../../../../../etc", at("up")), os.Symlink("loop", at("loop")), os.Symlink("version", at("root-again")),
		os.MkdirAll(at("..."), 0o700), os.MkdirAll(at("closed"), 0o000), os.MkdirAll(deep, 0o755), os.WriteFile(filepath.Join(deep, "file"), []byte("deep"), 0o644),
		syscall.Mkfifo(at("pipe"), 0o600), syscall.Mknod(at("socket"), syscall.S_IFSOCK|0o600, 0),
	}
	for _, name := range []string{"..data", "-rf", "a\nb", "\xff\xfe", "~", "$(reboot)", strings.Repeat("x", 255), ".../..x"} {
		errs = append(errs, os.WriteFile(at(name), []byte(name), 0o755|os.ModeSetuid))
	}
	huge, err := os.Create(at("huge"))
	errs = append(errs, err, huge.Truncate(1<<40))
	_, err = huge.WriteAt([]byte("sixteen bytes it"), island)
	if err := errors.Join(append(errs, err, huge.Close())...); err != nil {
		t.Fatal(err)
	}
}

// moving waits until the condition Moving says something.
func moving(t *testing.T, n tenant, says string) {
	t.Helper()
	eventually(t, func() error {
		got, err := n.Run(t.Context(), "get", "placement/namespace", "-o", `jsonpath={.status.conditions[?(@.type=="Moving")].message}`)
		if err == nil && !strings.Contains(got, says) {
			err = fmt.Errorf("it says %q, and is to say %q", got, says)
		}
		return err
	})
}

func (n tenant) stateful(t *testing.T) {
	t.Helper()
	must(t)(n.Run(t.Context(), "rollout", "status", "statefulset/db", "--timeout=3m"))
	if got := must(t)(n.in(t.Context(), "db-0", "cat", "/data/version")); got != "16" {
		t.Errorf("the database reads %q", got)
	}
}

// counts waits until what was copied counts: from then on there is a way back only with what is there by now.
func counts(t *testing.T, n tenant, on string) {
	t.Helper()
	eventually(t, func() error {
		p, err := placement(n.Kubectl)
		if tr := p.Spec.Transition; err == nil && (p.Spec.Decision.PhysicalClusters[0].Name != on || tr != nil && tr.Phase != placementv1alpha1.TransitionClearing) {
			err = fmt.Errorf("decision %+v, transition %+v", p.Spec.Decision, tr)
		}
		return err
	})
}

// A copy that counts is what is copied the next time, however soon: nothing of before comes back.
func TestDataGoBackAndForthWithWhatWasWrittenLast(t *testing.T) {
	n, _, west := startsDatabase(t, "forth", 1<<20)
	declare(t, copied2Gi)
	pin(t, n.Kubectl, "west")
	settled(t, n.Kubectl, "west")
	has(t, n, "west")
	if err := errors.Join(os.WriteFile(filepath.Join(west, "later"), []byte("written on west"), 0o600), os.Remove(filepath.Join(west, "again"))); err != nil {
		t.Fatal(err)
	}
	want := files(t, west)
	disk(t, "east", "back")
	third := disk(t, "west", "third")
	pin(t, n.Kubectl, "east")
	counts(t, n, "east")
	pin(t, n.Kubectl, "west") // while what is on west goes, or just after it
	settled(t, n.Kubectl, "west")
	has(t, n, "west")
	if diff := cmp.Diff(want, files(t, third)); diff != "" {
		t.Errorf("the files (-want +got):\n%s", diff)
	}
}

// What cannot be copied is named for as long as it is there, and nothing of it is used. What can be is, whatever
// it is called.
func TestAStatefulSetMovesWithAllThatCanBeCopied(t *testing.T) {
	ctx := t.Context()
	east := disk(t, "east", "stateful")
	disk(t, "west", "stateful")
	fill(t, east, 100_000)
	hostile(t, east)
	if err := errors.Join(os.WriteFile(filepath.Join(east, "big"), bytes.Repeat([]byte{1}, 6<<20), 0o600), syscall.Mknod(filepath.Join(east, "zero"), syscall.S_IFCHR|0o666, 1<<8|5)); err != nil {
		t.Fatal(err)
	}
	n := newTenant(t, "stateful").namespace(t, namespace, "east")
	must(t)(n.Apply(ctx, statefulDatabase))
	n.stateful(t)
	declare(t, strings.Replace(copied2Gi, "2Gi", "4Mi", 1))

	pin(t, n.Kubectl, "west")
	moving(t, n, "there is more to copy than maxBytes")
	if err := os.Remove(filepath.Join(east, "big")); err != nil {
		t.Fatal(err)
	}
	moving(t, n, `"zero" is a device`)

	// The pod that reads the volume has it attached, as CSI drivers say it; that is no user of it.
	in := theLab.PhysicalCluster("east").In(below(t, n.Kubectl))
	reads := func() string {
		return must(t)(in.Run(ctx, "get", "pods", "-l", "atoll.dev/copies-claim", "-o", "jsonpath={.items[*].metadata.uid}"))
	}
	before, err := transfer(n)
	if err != nil {
		t.Fatal(err)
	}
	pod := reads()
	must(t)(in.Apply(ctx, `{apiVersion: storage.k8s.io/v1, kind: VolumeAttachment, metadata: {name: stateful}, spec: {attacher: nobody.example.com, nodeName: east-node, source: {persistentVolumeName: stateful}}}`))
	t.Cleanup(func() {
		_, _ = in.Run(context.Background(), "delete", "volumeattachment", "stateful", "--ignore-not-found")
	})
	copiesSome(t, n, before.Transfer.Attempts+2)
	if again := reads(); again != pod || pod == "" {
		t.Errorf("the pod that reads the volume was %q and is %q", pod, again)
	}
	must(t)(in.Run(ctx, "delete", "volumeattachment", "stateful"))

	// The way out is the way back.
	pin(t, n.Kubectl, "east")
	settled(t, n.Kubectl, "east")
	n.stateful(t)
	if err := os.Remove(filepath.Join(east, "zero")); err != nil {
		t.Fatal(err)
	}
	must(t)(theLab.PhysicalCluster("west").Run(ctx, "delete", "persistentvolume", "stateful", "--timeout=1m"))
	west := disk(t, "west", "stateful") // with what the attempts left
	want := files(t, east)
	pin(t, n.Kubectl, "west")
	reaches(t, n.Kubectl, placementv1alpha1.TransitionHandingOver)
	settled(t, n.Kubectl, "west")
	n.stateful(t)
	if diff := cmp.Diff(want, files(t, west)); diff != "" {
		t.Errorf("the files (-want +got):\n%s", diff)
	}
}
