package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/utils/ptr"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/cli/edit"
	"github.com/atoll-dev/atoll/pkg/registration"
	"github.com/atoll-dev/atoll/pkg/scope"
)

// runAgent makes the PhysicalCluster and a token for its agent, and prints what runs the agent on
// the physical cluster. What people read goes to standard error.
func (r *register) runAgent(ctx context.Context, c *connection, pc *fleetv1alpha1.PhysicalCluster) error {
	if r.image == "" {
		return errors.New("--image: name an image with atoll-syncer, which the physical cluster can pull")
	}
	said, manifestTo := *r.options, r.Out
	said.Out = r.ErrOut
	r.options = &said
	pc, err := r.write(ctx, c, pc)
	if err != nil {
		return err
	}
	token, until, err := c.registeringToken(ctx, pc.Name, r.tokenTTL)
	if err != nil {
		return fmt.Errorf("making the token that registers %s: %w", pc.Name, err)
	}
	kubeconfig, err := c.registeringKubeconfig(r.agentServer, token)
	if err != nil {
		return err
	}
	manifest, err := edit.Agent{PhysicalCluster: pc.Name, Image: r.image, Kubeconfig: kubeconfig}.Manifest(r.kinds)
	if err != nil {
		return err
	}
	if _, err := manifestTo.Write(manifest); err != nil {
		return err
	}
	fmt.Fprintf(r.ErrOut, `
Apply what is printed to the physical cluster with kubectl apply -f; it has a token in it, which is good for a request until %s. Then look at
the request and approve it:

  kubectl atoll approve %s
`, until.Format(time.RFC3339), pc.Name)
	return nil
}

// registeringToken makes a token that may do one thing: ask for the certificate of the syncer of a
// physical cluster. Those that were made for it before end, and so does what they asked for.
func (c *connection) registeringToken(ctx context.Context, name string, ttl time.Duration) (string, time.Time, error) {
	accounts, account := c.kube.CoreV1().ServiceAccounts(fleetv1alpha1.LeaseNamespace), registration.Account(name)
	if err := accounts.Delete(ctx, account, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
		return "", time.Time{}, err
	}
	err := c.kube.CertificatesV1().CertificateSigningRequests().Delete(ctx, registration.Name(name), metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return "", time.Time{}, err
	}
	if _, err := accounts.Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: account}}, metav1.CreateOptions{FieldManager: fieldManager}); err != nil {
		return "", time.Time{}, err
	}
	made, err := accounts.CreateToken(ctx, account, &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: ptr.To(int64(ttl.Seconds()))}}, metav1.CreateOptions{})
	if err != nil {
		return "", time.Time{}, err
	}
	return made.Status.Token, made.Status.ExpirationTimestamp.Time, nil
}

// registeringKubeconfig leads to the server with a token.
func (c *connection) registeringKubeconfig(server, token string) ([]byte, error) {
	config := rest.CopyConfig(c.config)
	if err := rest.LoadTLSFiles(config); err != nil {
		return nil, err
	}
	if server == "" {
		server = config.Host
	}
	return clientcmd.Write(clientcmdapi.Config{
		Clusters:  map[string]*clientcmdapi.Cluster{"atoll": {Server: server + scope.Scope{Cluster: scope.Root}.Path(), CertificateAuthorityData: config.CAData}},
		AuthInfos: map[string]*clientcmdapi.AuthInfo{"register": {Token: token}},
		Contexts:  map[string]*clientcmdapi.Context{"register": {Cluster: "atoll", AuthInfo: "register"}}, CurrentContext: "register",
	})
}
