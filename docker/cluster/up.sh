#!/usr/bin/env bash
# Bring up the local one-node Kubernetes cluster; does nothing when it is healthy.
#
# Usage: docker/cluster/up.sh            (root, Debian 12 or 13)
# Then:  . /var/lib/ragops-cluster/env   (KUBECONFIG, RAGOPS_NODE_IP, ...; see paths.sh)
#
# Every bring-up starts from an empty etcd and an empty container store, so that a node whose processes were all killed
# comes back too. Binaries and image archives are cached in ~/.cache/airflow-provider-ragops (RAGOPS_CACHE).
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
for part in paths packages processes health network pki control-plane node archive teardown; do
    # shellcheck source=/dev/null
    . "$here/$part.sh"
done

prepare() {
    umask 077
    mkdir -p "$RUN/pids" "$LOGS" "$PKI"
    save_sysctls
    refuse_collision
    make_pki
    write_containerd_config
    write_cni_config
    write_kubelet_config
    write_kube_proxy_config
    make_cgroups
    make_pod_logs
    make_link
    make_rules
    umask 022
}

start_all() {
    start_etcd
    start_containerd
    start_apiserver
    wait_for "containerd answers" 30 containerd ctr_node version
    import_pause
    # The kubelet looks for a Docker engine for five seconds first, and then waits for the API server: it may begin early.
    start_kubelet
    wait_for "API server is ready" 90 kube-apiserver api_ready
    start_controller_manager
    start_scheduler
    start_kube_proxy
    wait_for "node is Ready" 90 kubelet node_ready
    wait_for "default service account exists" 60 kube-controller-manager default_account_ready
    wait_for "service rules are in place" 60 kube-proxy rules_present
}

write_env() {
    cat > "$ENV_FILE" << ENV
export KUBECONFIG=$ADMIN_KUBECONFIG
export RAGOPS_NODE_IP=$NODE_IP
export RAGOPS_POD_CIDR=$POD_CIDR
export RAGOPS_SERVICE_CIDR=$SERVICE_CIDR
export RAGOPS_CONTAINERD_SOCKET=$CONTAINERD_SOCKET
ENV
}

main() {
    local problem began
    [ "$(id -u)" = 0 ] || die "needs root: it makes links, mounts and cgroups"
    refuse_odd_cache
    exec 9> "$LOCK"
    flock --timeout 1800 9 || die "another bring-up or bring-down holds $LOCK for 30 minutes"
    if healthy_soon; then
        say "healthy already; kubeconfig $ADMIN_KUBECONFIG"
        return
    fi
    [ "$problem" = "not running" ] || say "starting afresh, because: $problem"
    # Without the lock's descriptor: a service that a package starts would hold the lock for ever.
    need_packages etcd-server containerd runc containernetworking-plugins conntrack iptables iproute2 openssl 9>&-
    "$here/build.sh" 9>&-
    began=$SECONDS
    trap 'say "interrupted; taking it down again"; tear_down; exit 130' INT TERM
    tear_down
    prepare
    start_all
    write_env
    say "up in $((SECONDS - began))s; kubeconfig $ADMIN_KUBECONFIG, node address $NODE_IP, settings in $ENV_FILE"
}

# A shell reads its script as it goes: the exit on the same line lets the file be edited while it runs.
main; exit
