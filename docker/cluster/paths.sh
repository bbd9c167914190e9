# shellcheck shell=bash disable=SC2034
# Names shared by the scripts of the local cluster; sourced, never run.
KUBE_VERSION=1.20.2
CACHE="${RAGOPS_CACHE:-$HOME/.cache/airflow-provider-ragops}"
# The last number rises when build.sh makes other binaries of the same version, so that no cache keeps the old ones.
BIN="$CACHE/kubernetes-$KUBE_VERSION-2"
IMAGE_ARCHIVES="$CACHE/images"

# One node per machine: its link, chains and sockets have fixed names, so all checkouts share it.
RUN="${RAGOPS_CLUSTER_RUN:-/run/ragops-cluster}"
STATE="${RAGOPS_CLUSTER_STATE:-/var/lib/ragops-cluster}"
LOGS="$STATE/logs"
PKI="$STATE/pki"
LOCK=/run/lock/ragops-cluster.lock

# What users of the cluster read: the admin's kubeconfig, and a file of shell assignments
# (RAGOPS_NODE_IP, KUBECONFIG, RAGOPS_POD_CIDR, RAGOPS_SERVICE_CIDR, RAGOPS_CONTAINERD_SOCKET).
ADMIN_KUBECONFIG="$STATE/kubeconfig"
ENV_FILE="$STATE/env"

NODE_NAME=ragops
CGROUP=ragops-cluster
LINK=ragops0
# First two octets of the cluster's private range. The node's address is also the pods' gateway: what listens on it
# (MLflow, Redis) is reachable from every pod.
NET="${RAGOPS_CLUSTER_NET:-10.231}"
NODE_IP="$NET.0.1"
POD_CIDR="$NET.0.0/24"
SERVICE_CIDR="$NET.1.0/24"
KUBERNETES_SERVICE_IP="$NET.1.1"
API_SERVER="https://$NODE_IP:6443"
CONTAINERD_SOCKET="$RUN/containerd.sock"
PAUSE_IMAGE=localhost/ragops/pause:1
# A machine's HTTP proxy knows nothing of these addresses.
export NO_PROXY="${NO_PROXY:+$NO_PROXY,}127.0.0.1,$NODE_IP"

say() { printf '%s: %s\n' "${SAY_AS:-cluster}" "$*" >&2; }
die() { say "$*"; exit 1; }

# A makefile cannot name a path with blanks, and a mount's options end one at a comma or colon.
refuse_odd_cache() {
    case "$CACHE" in
        [!/]* | *[[:space:],:\\\"\'\#\$%]*)
            die "RAGOPS_CACHE: expected an absolute path without blanks, quotes and , : \\ # \$ % (make and overlay" \
                "mounts fail on them); saw '$CACHE'. Set RAGOPS_CACHE to another directory" ;;
    esac
}

kubectl_admin() { "$BIN/kubectl" --kubeconfig "$ADMIN_KUBECONFIG" --request-timeout=10s "$@"; }
ctr_node() { ctr --address "$CONTAINERD_SOCKET" --namespace k8s.io "$@"; }
