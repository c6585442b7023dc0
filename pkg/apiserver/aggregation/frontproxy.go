package aggregation

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/kcp-dev/logicalcluster/v3"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/atoll-dev/atoll/pkg/apiserver/pki"
)

// Names that extension servers look for.
const (
	trustName   = "extension-apiserver-authentication"
	trustReader = "extension-apiserver-authentication-reader"
)

// renewAfter is half of what a certificate lasts.
const renewAfter = 180 * 24 * time.Hour

// frontProxies has the certificate with which the control plane speaks for the
// users of each logical cluster, made when it is needed.
type frontProxies struct {
	kube      kubernetes.Interface
	authority pki.FrontProxy
	clientCA  []byte

	mu    sync.Mutex
	ready map[logicalcluster.Name]*frontProxy
}

// frontProxy is one certificate.
type frontProxy struct {
	cert, key []byte
	made      time.Time
}

func newFrontProxies(kube kubernetes.Interface, authority pki.FrontProxy, clientCA []byte) *frontProxies {
	return &frontProxies{kube: kube, authority: authority, clientCA: clientCA, ready: map[logicalcluster.Name]*frontProxy{}}
}

func (f *frontProxies) of(c logicalcluster.Name) (*frontProxy, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if known := f.ready[c]; known != nil && time.Since(known.made) < renewAfter {
		return known, nil
	}
	cert, key, err := f.authority.Issue(c)
	if err != nil {
		return nil, err
	}
	f.ready[c] = &frontProxy{cert: cert, key: key, made: time.Now()}
	return f.ready[c], nil
}

func (f *frontProxies) forget(c logicalcluster.Name) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.ready, c)
}

// trust is what an extension server of c needs to know who speaks for users:
// upstream's keys.
func (f *frontProxies) trust(c logicalcluster.Name) map[string]string {
	list := func(s string) string {
		data, err := json.Marshal([]string{s})
		if err != nil {
			return "[]" // strings can be marshalled
		}
		return string(data)
	}
	return map[string]string{
		"client-ca-file":                     string(f.clientCA),
		"requestheader-client-ca-file":       string(f.authority.CAPEM()),
		"requestheader-allowed-names":        list(pki.FrontProxyName(c)),
		"requestheader-username-headers":     list("X-Remote-User"),
		"requestheader-uid-headers":          list("X-Remote-Uid"),
		"requestheader-group-headers":        list("X-Remote-Group"),
		"requestheader-extra-headers-prefix": list("X-Remote-Extra-"),
	}
}

// publish keeps the ConfigMap and the Role in the logical cluster of ctx.
func (f *frontProxies) publish(ctx context.Context, c logicalcluster.Name) error {
	if err := f.publishTrust(ctx, c); err != nil {
		return fmt.Errorf("publishing who speaks for users: %w", err)
	}
	roles := f.kube.RbacV1().Roles(metav1.NamespaceSystem)
	if _, err := roles.Get(ctx, trustReader, metav1.GetOptions{ResourceVersion: "0"}); !apierrors.IsNotFound(err) {
		return err
	}
	_, err := roles.Create(ctx, &rbacv1.Role{
		ObjectMeta: metav1.ObjectMeta{Name: trustReader},
		Rules:      []rbacv1.PolicyRule{{Verbs: []string{"get", "list", "watch"}, APIGroups: []string{""}, Resources: []string{"configmaps"}, ResourceNames: []string{trustName}}},
	}, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("making the role %s: %w", trustReader, err)
	}
	return nil
}

func (f *frontProxies) publishTrust(ctx context.Context, c logicalcluster.Name) error {
	client, want := f.kube.CoreV1().ConfigMaps(metav1.NamespaceSystem), f.trust(c)
	known, err := client.Get(ctx, trustName, metav1.GetOptions{ResourceVersion: "0"})
	if apierrors.IsNotFound(err) {
		if _, err := f.kube.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: metav1.NamespaceSystem}}, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
			return err
		}
		_, err = client.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: trustName}, Data: want}, metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) {
			return nil
		}
		return err
	}
	if err != nil || includes(known.Data, want) {
		return err
	}
	changed := known.DeepCopy()
	if changed.Data == nil {
		changed.Data = map[string]string{}
	}
	maps.Copy(changed.Data, want)
	_, err = client.Update(ctx, changed, metav1.UpdateOptions{})
	return err
}

func includes(data, want map[string]string) bool {
	for key, value := range want {
		if data[key] != value {
			return false
		}
	}
	return true
}
