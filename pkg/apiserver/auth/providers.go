package auth

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apiserver/pkg/apis/apiserver"
	"k8s.io/apiserver/pkg/apis/apiserver/install"
	"k8s.io/apiserver/pkg/apis/apiserver/validation"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/cel"
	tokenunion "k8s.io/apiserver/pkg/authentication/token/union"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	"k8s.io/apiserver/plugin/pkg/authenticator/token/oidc"
)

// load reads the configuration file.
func (o Options) load() (data string, config *apiserver.AuthenticationConfiguration, err error) {
	content, err := os.ReadFile(o.ConfigFile)
	if err != nil {
		return "", nil, fmt.Errorf("reading --authentication-config: %w", err)
	}
	config, err = o.parse(content)
	return string(content), config, err
}

func (o Options) parse(data []byte) (*apiserver.AuthenticationConfiguration, error) {
	config, err := decodeConfig(data)
	if err != nil {
		return nil, fmt.Errorf("reading --authentication-config %s: %w", o.ConfigFile, err)
	}
	if err := validation.ValidateAuthenticationConfiguration(cel.NewDefaultCompiler(), config, o.Issuers).ToAggregate(); err != nil {
		return nil, fmt.Errorf("reading --authentication-config %s: %w", o.ConfigFile, err)
	}
	for i := range config.JWT {
		if url := config.JWT[i].Issuer.URL; issues(o.Issuers, url) {
			return nil, fmt.Errorf("reading --authentication-config %s: issuer %s is that of service accounts", o.ConfigFile, url)
		}
	}
	return config, nil
}

func decodeConfig(data []byte) (*apiserver.AuthenticationConfiguration, error) {
	scheme := runtime.NewScheme()
	install.Install(scheme)
	obj, err := runtime.Decode(serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDecoder(), data)
	if err != nil {
		return nil, err
	}
	config, ok := obj.(*apiserver.AuthenticationConfiguration)
	if !ok {
		return nil, fmt.Errorf("it is a %T, not an AuthenticationConfiguration", obj)
	}
	return config, nil
}

// issues says whether url is below one of issuers.
func issues(issuers []string, url string) bool {
	for _, issuer := range issuers {
		if strings.HasPrefix(url, issuer+clustersSegment) {
			return true
		}
	}
	return false
}

// providers accepts the JWTs of identity providers.
type providers struct {
	tokens  authenticator.Token // nil if there are none
	healthy []func() error
	// end stops keeping their keys current.
	end context.CancelFunc
}

// AuthenticateToken implements authenticator.Token.
func (p *providers) AuthenticateToken(ctx context.Context, token string) (*authenticator.Response, bool, error) {
	if p.tokens == nil {
		return nil, false, nil
	}
	return p.tokens.AuthenticateToken(ctx, token)
}

// newProviders keeps the keys of identity providers current until ctx ends, or end
// is called.
func newProviders(ctx context.Context, config []apiserver.JWTAuthenticator, reserved []string) (_ *providers, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer func() {
		if err != nil {
			cancel()
		}
	}()
	p := &providers{end: cancel}
	var all []authenticator.Token
	for _, jwt := range config {
		options := oidc.Options{JWTAuthenticator: jwt, SupportedSigningAlgs: oidc.AllValidSigningAlgorithms(), DisallowedIssuers: reserved}
		if ca := jwt.Issuer.CertificateAuthority; ca != "" {
			content, err := dynamiccertificates.NewStaticCAContent("authentication-config", []byte(ca))
			if err != nil {
				return nil, fmt.Errorf("reading the certificate authority of %s: %w", jwt.Issuer.URL, err)
			}
			options.CAContentProvider = content
		}
		provider, err := oidc.New(ctx, options)
		if err != nil {
			return nil, fmt.Errorf("configuring identity provider %s: %w", jwt.Issuer.URL, err)
		}
		all, p.healthy = append(all, provider), append(p.healthy, provider.HealthCheck)
	}
	if len(all) > 0 {
		p.tokens = unreserved{tokenunion.NewFailOnError(all...)}
	}
	return p, nil
}

// unreserved refuses users of identity providers who would be taken for the
// system or for a service account, whatever the mapping of claims says.
type unreserved struct{ authenticator.Token }

var errReserved = errors.New("a user of an identity provider has a name or group that is reserved for the system: give claims a prefix")

// AuthenticateToken implements authenticator.Token.
func (u unreserved) AuthenticateToken(ctx context.Context, token string) (*authenticator.Response, bool, error) {
	response, ok, err := u.Token.AuthenticateToken(ctx, token)
	if ok && err == nil && isReserved(response.User) {
		return nil, false, errReserved
	}
	return response, ok, err
}

// isReserved leaves one group of the system to identity providers: whoever runs
// the server may let them name its admins.
func isReserved(u user.Info) bool {
	if strings.HasPrefix(u.GetName(), "system:") {
		return true
	}
	for _, g := range u.GetGroups() {
		if strings.HasPrefix(g, "system:") && g != user.SystemPrivilegedGroup {
			return true
		}
	}
	return false
}
