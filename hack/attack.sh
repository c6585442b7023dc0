#!/usr/bin/env bash
# Attacks a server with two physical clusters, all of them processes, as a hostile tenant
# and the syncer of a hostile physical cluster. The list is in test/attack; -run REGEX tries some of it.
source "$(dirname "$0")/lib.sh"
need_go
hack/build.sh
exec go run ./test/attack/run "$@"
