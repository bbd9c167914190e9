# shellcheck shell=bash
# Is the node usable, and if not, why not; sourced.

COMPONENTS="etcd containerd kube-apiserver kube-controller-manager kube-scheduler kubelet kube-proxy"

dead_components() {
    local name
    for name in $COMPONENTS; do
        own_pid "$name" > /dev/null || printf '%s\n' "$name"
    done
}

api_ready() { kubectl_admin get --raw /readyz; }

node_ready() {
    kubectl_admin get node "$NODE_NAME" \
        -o jsonpath='{range .status.conditions[?(@.type=="Ready")]}{.status}{end}' | grep -qx True
}

default_account_ready() { kubectl_admin --namespace default get serviceaccount default; }

rules_present() { iptables --wait 10 --table nat --list KUBE-SERVICES --numeric; }

# A busy node may miss one look; what is up is only thrown away when it stays unhealthy. Sets `problem`.
healthy_soon() {
    local look
    for look in 1 2 3 4; do
        problem=$(problems) && return
        case $problem in "not running"*) return 1 ;; esac
        [ "$look" = 4 ] || sleep 10
    done
    return 1
}

# Prints nothing and succeeds when healthy; otherwise prints what is wrong.
problems() {
    local dead
    [ -e "$RUN/pids" ] || { printf 'not running\n'; return 1; }
    dead=$(dead_components)
    [ -z "$dead" ] || { printf 'not running: %s\n' "${dead//$'\n'/, }"; return 1; }
    ip link show "$LINK" > /dev/null 2>&1 || { printf 'link %s is gone\n' "$LINK"; return 1; }
    api_ready > /dev/null 2>&1 || { printf 'the API server at %s is not ready\n' "$API_SERVER"; return 1; }
    node_ready || { printf 'node %s is not Ready; see %s/kubelet.log\n' "$NODE_NAME" "$LOGS"; return 1; }
    default_account_ready > /dev/null 2>&1 || { printf 'no default service account yet\n'; return 1; }
    rules_present > /dev/null 2>&1 || { printf "kube-proxy's packet rules are missing\n"; return 1; }
}
