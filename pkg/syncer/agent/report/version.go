package report

import (
	"encoding/json"
	"errors"

	"k8s.io/apimachinery/pkg/version"
)

func decodeVersion(b []byte, v *version.Info) error {
	if err := json.Unmarshal(b, v); err != nil {
		return err
	}
	if v.GitVersion == "" {
		return errors.New("no version")
	}
	return nil
}
