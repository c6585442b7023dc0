package skew

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

const (
	// SyncerHeader is what a syncer says of itself with each request, ServerHeader what a server
	// answers.
	SyncerHeader = "Atoll-Syncer"
	ServerHeader = "Atoll-Server"
)

const (
	maxHeader = 256
	// maxBuild bounds the version of a build, which is shown to people.
	maxBuild = 64
)

// Header is what a side says of itself, as the value of its header.
func (s Side) Header() string {
	return fmt.Sprintf("revision=%d, oldest=%d, build=%s", s.Revision, s.Oldest, s.Build)
}

// Read returns what the values of a header say. Without any it is a build from before there was
// one. Keys that are not known here are for builds that know them.
func Read(values []string) (Side, error) {
	if len(values) == 0 {
		return Side{Revision: Unsaid, Oldest: Unsaid}, nil
	}
	if len(values) > 1 || len(values[0]) > maxHeader {
		return Side{}, fmt.Errorf("it is said more than once, or in more than %d characters", maxHeader)
	}
	said := map[string]string{}
	for pair := range strings.SplitSeq(values[0], ",") {
		key, value, ok := strings.Cut(strings.TrimSpace(pair), "=")
		if _, twice := said[key]; !ok || twice {
			return Side{}, errors.New("it is not of the form revision=2, oldest=1, build=v0.1.0")
		}
		said[key] = value
	}
	out := Side{Build: said["build"]}
	for key, to := range map[string]*int32{"revision": &out.Revision, "oldest": &out.Oldest} {
		n, err := strconv.ParseUint(said[key], 10, 31)
		if err != nil {
			return Side{}, fmt.Errorf("%s is no number from 0 to %d", key, int64(1)<<31-1)
		}
		*to = int32(n)
	}
	if err := out.validate(); err != nil {
		return Side{}, err
	}
	return out, nil
}

// validate says what is wrong with a side. Nothing of what it says is repeated before that is asked.
func (s Side) validate() error {
	if s.Oldest > s.Revision || s.Revision < 0 || s.Oldest < 0 {
		return errors.New("oldest is later than revision, or negative")
	}
	if !ValidBuild(s.Build) {
		return fmt.Errorf("build is not 1 to %d letters, digits and characters of .+-_", maxBuild)
	}
	return nil
}

// ValidBuild says that a version can be shown to people as it is.
func ValidBuild(build string) bool {
	const may = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.+-_"
	return build != "" && len(build) <= maxBuild && !strings.ContainsFunc(build, func(r rune) bool { return !strings.ContainsRune(may, r) })
}
