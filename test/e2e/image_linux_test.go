package e2e

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/atoll-dev/atoll/test/framework/process"
)

// An image of the server may have nothing in it but the server: no time zones, no certificates, no /proc, no /tmp.
func TestTheServerNeedsNoFilesOfItsMachine(t *testing.T) {
	t.Parallel()
	chroot, err := exec.LookPath("chroot")
	if err != nil || os.Getuid() != 0 {
		t.Skip("changing the root directory needs root and chroot")
	}
	dir := shortDir(t)
	d := startAlone(t, dir, func(s process.Spec) process.Spec {
		copyFile(t, s.Path, filepath.Join(dir, "server"))
		args := []string{dir, "/server"}
		for _, arg := range s.Args {
			args = append(args, strings.TrimPrefix(arg, dir))
		}
		s.Path, s.Args = chroot, args
		return s
	})
	job := func(name, zone string) error {
		_, err := d.kube.BatchV1().CronJobs("default").Create(t.Context(), &batchv1.CronJob{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: batchv1.CronJobSpec{Schedule: "0 3 * * *", TimeZone: ptr.To(zone), JobTemplate: batchv1.JobTemplateSpec{Spec: batchv1.JobSpec{Template: corev1.PodTemplateSpec{
				Spec: corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "c", Image: "nginx"}}},
			}}}},
		}, metav1.CreateOptions{})
		return err
	}
	if err := job("known", "Europe/Berlin"); err != nil {
		t.Error(err)
	}
	if err := job("unknown", "Europe/Atlantis"); !apierrors.IsInvalid(err) {
		t.Errorf("a time zone that there is not: %v, want Invalid", err)
	}
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	in, err := os.Open(from)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o700)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(out, in); err != nil {
		t.Fatal(err)
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
}
