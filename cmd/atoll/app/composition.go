package app

import (
	"context"

	"github.com/kcp-dev/logicalcluster/v3"
	"k8s.io/apiserver/pkg/admission"
	restclient "k8s.io/client-go/rest"

	"github.com/atoll-dev/atoll/pkg/apiserver"
)

type composition struct {
	url   string
	caPEM []byte
}

func (c *composition) admission(loopback *restclient.Config) (admission.Interface, error) {
	return admission.NewChainHandler(), nil
}
func (c *composition) bootstrap(ctx context.Context, name logicalcluster.Name) error { return nil }
func (c *composition) start(ctx context.Context, s *apiserver.Server, names []string) error {
	go s.RBAC.Run(ctx)
	return s.RBAC.WaitForSync(ctx)
}
func (c *composition) wait() {}
