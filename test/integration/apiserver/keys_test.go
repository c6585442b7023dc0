package apiserver

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/atoll-dev/atoll/cmd/atoll/app"
	"github.com/atoll-dev/atoll/test/framework/etcd"
	"github.com/atoll-dev/atoll/test/framework/server"
)

func TestAServerWithOtherKeysEndsAndChangesNothing(t *testing.T) {
	t.Parallel()
	endpoint, dir := etcd.Start(t), t.TempDir()
	s := server.StartOn(t, dir, endpoint)
	defer func() { s.Stop(t) }()
	authorities := func() map[string]string {
		t.Helper()
		found := map[string]string{}
		eventually(t, "the certificate authority is in each namespace", func() error {
			list, err := s.Kube.CoreV1().ConfigMaps("").List(server.InRoot(t), metav1.ListOptions{FieldSelector: "metadata.name=kube-root-ca.crt"})
			if err != nil {
				return err
			}
			for _, config := range list.Items {
				found[config.Namespace] = config.Data["ca.crt"] + config.ResourceVersion
			}
			for _, namespace := range []string{metav1.NamespaceDefault, metav1.NamespaceSystem, metav1.NamespacePublic, corev1.NamespaceNodeLease, "atoll-system"} {
				if found[namespace] == "" {
					return fmt.Errorf("it is not in %s", namespace)
				}
			}
			return nil
		})
		return found
	}
	before := authorities()

	o := app.NewOptions()
	o.DataDir, o.Listen, o.EtcdServers = t.TempDir(), "127.0.0.1:0", []string{endpoint}
	_, err := app.Start(t.Context(), *o)
	if err == nil {
		t.Fatal("a server with other keys started")
	}
	for _, want := range []string{filepath.Join(o.DataDir, "pki"), "ca.crt, front-proxy-ca.crt, sa.key, tenants-ca.crt differ", "--replace-keys"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the refusal does not name %s: %v", want, err)
		}
	}
	if diff := cmp.Diff(before, authorities()); diff != "" {
		t.Errorf("it changed the certificate authorities in namespaces (-before +after):\n%s", diff)
	}

	beside := server.StartBeside(t, s, endpoint)
	beside.Stop(t)
}

func TestKeysThatAreLostAreReplacedByOrderOnly(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := server.StartIn(t, dir)
	s.Stop(t)
	if err := os.RemoveAll(filepath.Join(dir, "pki")); err != nil {
		t.Fatal(err)
	}
	o := app.NewOptions()
	o.DataDir, o.Listen, o.UnsafeNoSync = dir, "127.0.0.1:0", true
	if _, err := app.Start(t.Context(), *o); err == nil || !strings.Contains(err.Error(), "--replace-keys") {
		t.Fatalf("without its keys the server started, or did not say what to do: %v", err)
	}
	again := server.StartWith(t, func(o *app.Options) { o.DataDir, o.ReplaceKeys = dir, true })
	ca, err := os.ReadFile(filepath.Join(dir, "pki", "ca.crt"))
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "namespaces get the new certificate authority", func() error {
		config, err := again.Kube.CoreV1().ConfigMaps(corev1.NamespaceDefault).Get(server.InRoot(t), "kube-root-ca.crt", metav1.GetOptions{})
		if err == nil && config.Data["ca.crt"] != string(ca) {
			err = errors.New("it has the old one")
		}
		return err
	})
	again.Stop(t)
	if err := server.StartIn(t, dir).Check(); err != nil { // with the new keys, and without the order
		t.Error(err)
	}
}
