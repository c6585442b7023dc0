#!/usr/bin/env bash
# Runs seeded worlds of the simulation: worlds.sh [HOW MANY] [FLAG...], 20000 by default,
# from a random seed on, in a process for each processor, at low priority. What breaks is printed at once; the command that
# repeats it, and what happened, at the end.
source "$(dirname "$0")/lib.sh"
need_go

worlds=${1:-20000}
[ $# -eq 0 ] || shift
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
go test -vet=off -c -o "$dir/simulation" ./test/simulation
say "== $worlds worlds"
cd test/simulation
nice -n 19 "$dir/simulation" -test.run '^TestWorlds$' -test.v -test.timeout 0 -fresh -worlds "$worlds" "$@"
