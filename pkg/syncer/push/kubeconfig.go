package push

import (
	"fmt"
	"net/url"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// unusableError says what is wrong with a kubeconfig, in words that can be shown
// to everybody.
type unusableError struct{ message string }

func (e *unusableError) Error() string { return e.message }

func unusablef(format string, args ...any) error {
	return &unusableError{fmt.Sprintf(format, args...)}
}

// parse reads a kubeconfig. Errors never repeat what is in it: the parser's own
// messages quote the text around a mistake.
func parse(kubeconfig []byte) (*rest.Config, error) {
	c, err := clientcmd.Load(kubeconfig)
	if err != nil {
		return nil, unusablef("the kubeconfig is not valid YAML of kind Config")
	}
	current, ok := c.Contexts[c.CurrentContext]
	if !ok || current == nil {
		return nil, unusablef("the kubeconfig names no existing current-context")
	}
	cluster, user := c.Clusters[current.Cluster], c.AuthInfos[current.AuthInfo]
	switch {
	case cluster == nil:
		return nil, unusablef("the kubeconfig's current context names a cluster that is not in it")
	case user == nil:
		return nil, unusablef("the kubeconfig's current context names a user that is not in it")
	}
	if u, err := url.Parse(cluster.Server); err != nil || u.Host == "" || (u.Scheme != "https" && u.Scheme != "http") {
		return nil, unusablef("the server in the kubeconfig is not an http(s) URL")
	}
	if field := foreign(cluster, user); field != "" {
		return nil, unusablef("the kubeconfig must carry its data inline: %s is not allowed", field)
	}
	config, err := clientcmd.NewNonInteractiveClientConfig(*c, c.CurrentContext, &clientcmd.ConfigOverrides{}, nil).ClientConfig()
	if err != nil {
		return nil, unusablef("the kubeconfig is incomplete")
	}
	if _, err := rest.TransportFor(config); err != nil {
		return nil, unusablef("the certificates or keys in the kubeconfig cannot be used")
	}
	return config, nil
}

// foreign names the field that would make the server run a program or read one
// of its files.
func foreign(cluster *clientcmdapi.Cluster, user *clientcmdapi.AuthInfo) string {
	switch {
	case user.Exec != nil:
		return "users.exec"
	case user.AuthProvider != nil:
		return "users.auth-provider"
	case user.TokenFile != "":
		return "users.tokenFile"
	case user.ClientCertificate != "":
		return "users.client-certificate"
	case user.ClientKey != "":
		return "users.client-key"
	case cluster.CertificateAuthority != "":
		return "clusters.certificate-authority"
	}
	return ""
}
