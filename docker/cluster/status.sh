#!/usr/bin/env bash
# Print whether the local cluster is healthy, or why not; exit code 0 or 1.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
for part in paths processes health; do
    # shellcheck source=/dev/null
    . "$here/$part.sh"
done
if problem=$(problems); then
    printf 'healthy: KUBECONFIG=%s\n' "$ADMIN_KUBECONFIG"
else
    printf '%s\n' "$problem"
    exit 1
fi
