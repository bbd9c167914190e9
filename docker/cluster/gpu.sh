#!/usr/bin/env bash
# A test aid: make the node advertise N pretended GPUs (nvidia.com/gpu), so that the scheduling of pods that ask for one
# can be tested without any. Nothing is mounted into such pods. N = 0 takes them away.
#
# Usage: docker/cluster/gpu.sh N
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
for part in paths packages; do
    # shellcheck source=/dev/null
    . "$here/$part.sh"
done
[[ "${1:-}" =~ ^[0-9]+$ ]] || die "usage: gpu.sh N, with N the number of pretended GPUs"
need_packages curl ca-certificates

token=$(sed -n 's/.*{token: \(.*\)}/\1/p' "$ADMIN_KUBECONFIG")
# kubectl of this version cannot patch a status. The token goes by a file descriptor and not by the arguments, which
# every process can read.
patch=$(printf '[{"op": "add", "path": "/status/%s/nvidia.com~1gpu", "value": "%s"},
    {"op": "add", "path": "/status/%s/nvidia.com~1gpu", "value": "%s"}]' capacity "$1" allocatable "$1")
curl --silent --show-error --fail --max-time 10 --noproxy '*' --cacert "$PKI/ca.crt" \
    --header @<(printf 'Authorization: Bearer %s\n' "$token") --header 'Content-Type: application/json-patch+json' \
    --request PATCH --data "$patch" --output /dev/null "$API_SERVER/api/v1/nodes/$NODE_NAME/status" \
    || die "the node's status was not changed; is the cluster up? (docker/cluster/status.sh)"
say "node $NODE_NAME advertises $1 pretended GPU(s)"
