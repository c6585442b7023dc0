package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/cli/edit"
	"github.com/atoll-dev/atoll/pkg/workload"
)

// physical is a physical cluster that is to be registered, as this machine reaches it.
type physical struct {
	config *clientcmdapi.Config
	// kubeconfig is config, written.
	kubeconfig []byte
	server     string
	kube       kubernetes.Interface
	// uid is that of kube-system, which says which cluster it is.
	uid types.UID
}

// loadPhysical reads a kubeconfig and makes it one that can be sent: one context, and all
// data inline.
func loadPhysical(file, contextName string) (*physical, error) {
	config, err := clientcmd.LoadFromFile(file)
	if err != nil {
		return nil, fmt.Errorf("--physical-kubeconfig: %w", err)
	}
	if contextName != "" {
		config.CurrentContext = contextName
	}
	if err := clientcmdapi.MinifyConfig(config); err != nil {
		return nil, fmt.Errorf("--physical-kubeconfig: %s: %w; name a context of it with --physical-context", file, err)
	}
	if err := clientcmdapi.FlattenConfig(config); err != nil {
		return nil, fmt.Errorf("--physical-kubeconfig: reading the files that %s names: %w", file, err)
	}
	kubeconfig, err := clientcmd.Write(*config)
	if err != nil {
		return nil, err
	}
	p, err := newPhysical(config, kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("--physical-kubeconfig: %s: %w", file, err)
	}
	return p, nil
}

func newPhysical(config *clientcmdapi.Config, kubeconfig []byte) (*physical, error) {
	rest, err := clientcmd.RESTConfigFromKubeConfig(kubeconfig)
	if err != nil {
		return nil, err
	}
	rest.Timeout, rest.QPS, rest.Burst = requestTimeout, 200, 400
	kube, err := kubernetes.NewForConfig(rest)
	return &physical{config: config, kubeconfig: kubeconfig, server: rest.Host, kube: kube}, err
}

// portable says whether the server can use the kubeconfig, too: nothing in it is a program
// or a file of this machine.
func (p *physical) portable() error {
	for name, user := range p.config.AuthInfos {
		if user.Exec != nil || user.AuthProvider != nil || user.TokenFile != "" {
			return fmt.Errorf("--physical-kubeconfig: user %q gets its credentials from a program or file of this machine, which the server does not have: "+
				"--make-credentials makes a ServiceAccount for the server", name)
		}
	}
	return nil
}

// identify reaches the physical cluster and reads who it is.
func (p *physical) identify(ctx context.Context) error {
	namespace, err := p.kube.CoreV1().Namespaces().Get(ctx, metav1.NamespaceSystem, metav1.GetOptions{})
	switch {
	case apierrors.IsUnauthorized(err):
		return fmt.Errorf("the physical cluster at %s does not accept the credentials of --physical-kubeconfig: %w", p.server, err)
	case apierrors.IsForbidden(err):
		return fmt.Errorf("the credentials of --physical-kubeconfig must permit to get the namespace %s, which says which cluster it is: %w", metav1.NamespaceSystem, err)
	case err != nil:
		return fmt.Errorf("the physical cluster at %s does not answer here: %w", p.server, err)
	}
	p.uid = namespace.UID
	groups, err := p.kube.Discovery().ServerGroups()
	if err != nil {
		return fmt.Errorf("asking the physical cluster at %s which APIs it serves: %w", p.server, err)
	}
	if slices.ContainsFunc(groups.Groups, func(g metav1.APIGroup) bool { return g.Name == placementv1alpha1.GroupName }) {
		return fmt.Errorf("%s is a logical cluster of an Atoll server, not a physical cluster; name another context of --physical-kubeconfig with --physical-context", p.server)
	}
	return nil
}

// permits asks whether a syncer with these credentials may do what it has to.
func (p *physical) permits(ctx context.Context, kinds workload.Catalog) error {
	missing, err := lacking(ctx, p.kube, []authorizationv1.ResourceAttributes{edit.Question("*", "*", "*")})
	if err != nil || len(missing) == 0 {
		return err
	}
	if missing, err = lacking(ctx, p.kube, edit.Questions(edit.Needs(kinds))); err != nil || len(missing) == 0 {
		return err
	}
	return fmt.Errorf("the credentials of --physical-kubeconfig may not do all that a syncer does on the physical cluster; grant their user, in all namespaces: %s; or use those of an admin with --make-credentials", list(missing, 10))
}

// lacking are those of the questions whose answer is no.
func lacking(ctx context.Context, kube kubernetes.Interface, questions []authorizationv1.ResourceAttributes) ([]string, error) {
	no := make([]string, len(questions))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(reviewsInFlight)
	for i, q := range questions {
		group.Go(func() error {
			ask := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &q}}
			answer, err := kube.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, ask, metav1.CreateOptions{})
			if err != nil {
				return fmt.Errorf("asking what the credentials permit: %w", err)
			}
			if !answer.Status.Allowed {
				no[i] = wish(q)
			}
			return nil
		})
	}
	err := group.Wait()
	return slices.DeleteFunc(no, func(s string) bool { return s == "" }), err
}

// wish is a question in words.
func wish(q authorizationv1.ResourceAttributes) string {
	resource := strings.TrimSuffix(q.Resource+"/"+q.Subresource, "/")
	return q.Verb + " " + strings.TrimSuffix(resource+"."+q.Group, ".")
}

// list names the first of many.
func list(all []string, most int) string {
	if len(all) <= most {
		return strings.Join(all, ", ")
	}
	return fmt.Sprintf("%s, and %d more", strings.Join(all[:most], ", "), len(all)-most)
}

// allowed says what of the questions the user of the Atoll server may not do.
func (c *connection) allowed(ctx context.Context, questions ...authorizationv1.ResourceAttributes) error {
	missing, err := lacking(ctx, c.kube, questions)
	if err != nil {
		return err
	}
	if len(missing) > 0 {
		return errors.New("the user of the kubeconfig may not do this in root: " + strings.Join(missing, ", "))
	}
	return nil
}
