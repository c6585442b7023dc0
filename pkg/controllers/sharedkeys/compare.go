package sharedkeys

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// compare returns what is to be recorded, and the files whose digests differ:
//
//	recorded  this server's  then
//	none      any            added
//	equal     equal          stays
//	any       none           stays: a later release shares more
//	other     any            differs; recorded if the keys are replaced
func compare(recorded, own map[string]string) (after map[string]string, differ []string) {
	after = maps.Clone(recorded)
	if after == nil {
		after = map[string]string{}
	}
	for file, digest := range own {
		if known, ok := recorded[file]; ok && known != digest {
			differ = append(differ, file)
		}
		after[file] = digest
	}
	slices.Sort(differ)
	return after, differ
}

func (c Config) refusal(differ []string) error {
	return fmt.Errorf("%s: the keys of this server are not those of the control plane whose objects are in this etcd (%s differ): "+
		"copy the directory from the data directory of a server that has them; if nobody has them any more, start once with --replace-keys: "+
		"kubeconfigs, certificates and tokens that were made with them end", c.Directory, strings.Join(differ, ", "))
}
