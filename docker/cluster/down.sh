#!/usr/bin/env bash
# Take the local cluster down: its processes, pods, mounts, links, packet rules and state. The cache stays.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
for part in paths processes network teardown; do
    # shellcheck source=/dev/null
    . "$here/$part.sh"
done
[ "$(id -u)" = 0 ] || die "needs root"
exec 9> "$LOCK"
flock --timeout 1800 9 || die "another bring-up or bring-down holds $LOCK for 30 minutes"
tear_down
say "down"
