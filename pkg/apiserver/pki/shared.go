package pki

import (
	"crypto"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"fmt"
)

// Digests are those of the keys that all servers of a control plane share, by the name of
// the file that has them: SHA-256 of the public key, in hexadecimal.
func (p *PKI) Digests() (map[string]string, error) {
	frontProxy, err := p.FrontProxy()
	if err != nil {
		return nil, err
	}
	digests := map[string]string{}
	for file, key := range map[string]crypto.PublicKey{
		"ca.crt": p.ca.cert.PublicKey, "tenants-ca.crt": p.tenants.cert.PublicKey,
		"front-proxy-ca.crt": frontProxy.cert.PublicKey, "sa.key": p.ServiceAccountKey.Public(),
	} {
		der, err := x509.MarshalPKIXPublicKey(key)
		if err != nil {
			return nil, fmt.Errorf("encoding the public key of %s: %w", file, err)
		}
		sum := sha256.Sum256(der)
		digests[file] = hex.EncodeToString(sum[:])
	}
	return digests, nil
}
