package cluster

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"os"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"
)

const (
	validYears = 10
)

// pki is the directory of keys, certificates and kubeconfigs. Keys are made
// once; the kubeconfigs are written at every start, for the port may change.
type pki struct{ dir dataDir }

func (p pki) path(file string) string { return p.dir.path("pki", file) }

// users are those who get a client certificate: file name -> subject.
var users = map[string]pkix.Name{
	"admin":              {CommonName: "admin", Organization: []string{"system:masters"}},
	"controller-manager": {CommonName: "system:kube-controller-manager"},
	"scheduler":          {CommonName: "system:kube-scheduler"},
}

// openPKI makes what is missing and writes the kubeconfigs for the server at url.
func openPKI(dir dataDir, url string, o Options) (pki, error) {
	p := pki{dir: dir}
	if err := os.MkdirAll(dir.path("pki"), 0o700); err != nil {
		return p, fmt.Errorf("making the directory of keys: %w", err)
	}
	// What each of them writes last is there only if all is.
	for last, generate := range map[string]func() error{
		"sa.key":            func() error { return p.generate(o) },
		frontProxy + ".crt": p.generateFrontProxy,
	} {
		if _, err := os.Stat(p.path(last)); errors.Is(err, fs.ErrNotExist) {
			if err := generate(); err != nil {
				return p, fmt.Errorf("making keys: %w", err)
			}
		}
	}
	for user := range p.users(o) {
		file := p.path(user + ".kubeconfig")
		if user == "admin" {
			file = dir.path("admin.kubeconfig")
		}
		if err := p.writeKubeconfig(file, user, url); err != nil {
			return p, fmt.Errorf("writing kubeconfigs: %w", err)
		}
	}
	return p, nil
}

// authority makes a key and a certificate that signs others.
func (p pki) authority(name string) (*x509.Certificate, *ecdsa.PrivateKey, error) {
	key, err := p.newKey(name)
	if err != nil {
		return nil, nil, err
	}
	ca, err := cert.NewSelfSignedCACert(cert.Config{CommonName: p.dir.settings.Name + "-" + name, NotBefore: time.Now().Add(-time.Hour)}, key)
	if err != nil {
		return nil, nil, err
	}
	return ca, key, p.writeCert(name, ca.Raw)
}

// frontProxy is the name by which the aggregator calls extension API servers, as somebody else.
const frontProxy = "front-proxy-client"

func (p pki) generateFrontProxy() error {
	ca, key, err := p.authority("front-proxy-ca")
	if err != nil {
		return err
	}
	return p.issue(frontProxy, &x509.Certificate{Subject: pkix.Name{CommonName: frontProxy}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}, ca, key)
}

// frontProxyFlags have extension API servers believe the aggregator.
func frontProxyFlags(keys pki) []string {
	return []string{
		"--proxy-client-cert-file=" + keys.path(frontProxy+".crt"),
		"--proxy-client-key-file=" + keys.path(frontProxy+".key"),
		"--requestheader-client-ca-file=" + keys.path("front-proxy-ca.crt"),
		"--requestheader-allowed-names=" + frontProxy,
		"--requestheader-username-headers=X-Remote-User",
		"--requestheader-group-headers=X-Remote-Group",
		"--requestheader-extra-headers-prefix=X-Remote-Extra-",
	}
}

func (p pki) generate(o Options) error {
	ca, caKey, err := p.authority("ca")
	if err != nil {
		return err
	}
	addresses, err := firstServices(o.Services)
	if err != nil {
		return err
	}
	if err := p.issue("apiserver", &x509.Certificate{
		Subject:     pkix.Name{CommonName: "kube-apiserver"},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		DNSNames:    []string{"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local"},
		IPAddresses: append(addresses, net.ParseIP(loopback), net.ParseIP(o.Bind)),
	}, ca, caKey); err != nil {
		return err
	}
	for user, subject := range p.users(o) {
		certificate := &x509.Certificate{Subject: subject, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}
		if user == kubelet { // the API server calls it, too
			certificate.ExtKeyUsage = append(certificate.ExtKeyUsage, x509.ExtKeyUsageServerAuth)
			certificate.DNSNames, certificate.IPAddresses = []string{RealNodeName(o.Name)}, []net.IP{net.ParseIP(o.RealNode)}
		}
		if err := p.issue(user, certificate, ca, caKey); err != nil {
			return err
		}
	}
	_, err = p.newKey("sa")
	return err
}

// issue makes a key and a certificate of it, signed by ca.
func (p pki) issue(name string, template, ca *x509.Certificate, caKey *ecdsa.PrivateKey) error {
	key, err := p.newKey(name)
	if err != nil {
		return err
	}
	if template.SerialNumber, err = rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120)); err != nil {
		return err
	}
	template.KeyUsage = x509.KeyUsageDigitalSignature
	template.NotBefore, template.NotAfter = ca.NotBefore, ca.NotBefore.AddDate(validYears, 0, 0)
	der, err := x509.CreateCertificate(rand.Reader, template, ca, key.Public(), caKey)
	if err != nil {
		return err
	}
	return p.writeCert(name, der)
}

func (p pki) newKey(name string) (*ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	encoded, err := keyutil.MarshalPrivateKeyToPEM(key)
	if err != nil {
		return nil, err
	}
	return key, os.WriteFile(p.path(name+".key"), encoded, 0o600)
}

func (p pki) writeCert(name string, der []byte) error {
	c, err := x509.ParseCertificate(der)
	if err != nil {
		return err
	}
	encoded, err := cert.EncodeCertificates(c)
	if err != nil {
		return err
	}
	return os.WriteFile(p.path(name+".crt"), encoded, 0o600)
}

// writeKubeconfig writes a kubeconfig that needs no other file.
func (p pki) writeKubeconfig(file, user, url string) error {
	name := p.dir.settings.Name
	config := clientcmdapi.NewConfig()
	config.Clusters[name] = &clientcmdapi.Cluster{Server: url, CertificateAuthority: p.path("ca.crt")}
	config.AuthInfos[user] = &clientcmdapi.AuthInfo{ClientCertificate: p.path(user + ".crt"), ClientKey: p.path(user + ".key")}
	config.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: user}
	config.CurrentContext = name
	if err := clientcmdapi.FlattenConfig(config); err != nil {
		return err
	}
	return clientcmd.WriteToFile(*config, file)
}
