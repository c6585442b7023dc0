package apiserver

import (
	"bytes"

	"github.com/kcp-dev/logicalcluster/v3"
)

func scopeName(name string) logicalcluster.Name { return logicalcluster.Name(name) }

func contains(body []byte, want string) bool { return bytes.Contains(body, []byte(want)) }
