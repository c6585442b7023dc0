package auth

import (
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/spf13/pflag"
)

// Audience is the audience of tokens for the API of the control plane.
const Audience = "https://atoll.dev"

// Options say who may be who, beyond the control plane's own certificates.
type Options struct {
	// TokenFile has static tokens: CSV with token, user, UID and groups.
	TokenFile string
	// ConfigFile is an AuthenticationConfiguration of apiserver.config.k8s.io.
	ConfigFile string
	// Issuers of service account tokens: that of a logical cluster is one of them
	// followed by /clusters/<name>. The first issues, all are accepted.
	Issuers []string
}

// NewOptions returns the defaults.
func NewOptions() Options { return Options{Issuers: []string{Audience}} }

// AddFlags binds the options to flags.
func (o *Options) AddFlags(fs *pflag.FlagSet) {
	fs.StringVar(&o.TokenFile, "token-auth-file", o.TokenFile, "File with static tokens, CSV with the columns token, user, uid and groups: for tests.")
	fs.StringVar(&o.ConfigFile, "authentication-config", o.ConfigFile, "File with an AuthenticationConfiguration: identity providers whose JWTs are accepted, and who may be anonymous.")
	fs.StringSliceVar(&o.Issuers, "service-account-issuer", o.Issuers, "URL that, followed by /clusters/<name>, is the issuer of service account tokens; the first issues, all are accepted. Give the URL of --external-url to have tokens verified by others through OpenID discovery.")
}

// Validate says what is wrong and how to put it right.
func (o *Options) Validate() error {
	if len(o.Issuers) == 0 {
		return errors.New("--service-account-issuer: give at least one")
	}
	for _, issuer := range o.Issuers {
		if u, err := url.Parse(issuer); err != nil || u.Scheme != "https" || u.Host == "" || u.RawQuery != "" || u.Fragment != "" || strings.HasSuffix(issuer, "/") {
			return fmt.Errorf("--service-account-issuer %q: give an https URL without a slash at its end", issuer)
		}
	}
	return nil
}
