#!/usr/bin/env bash
# Check the local cluster for real, from nothing to nothing: bring-up, a pod with logs and exec, a Deployment behind a
# Service, the API server's proxy, death of all processes, bring-up again, bring-down twice.
#
# Usage: docker/cluster/self-check.sh              the whole life; takes the running cluster down
#        docker/cluster/self-check.sh workloads    only workloads, on the running cluster, in a namespace of their own
# shellcheck disable=SC2317  # the checks are called by name
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
for part in paths packages processes archive teardown; do
    # shellcheck source=/dev/null
    . "$here/$part.sh"
done
export SAY_AS=self-check
IMAGE=localhost/ragops/busybox:1
NAMESPACE=self-check
failures=0

# check WHAT COMMAND…: one line per check; a failure does not stop the rest.
check() {
    local what=$1 output
    shift
    if output=$("$@" 2>&1); then say "ok    $what"; else say "FAIL  $what: $output"; failures=$((failures + 1)); fi
}

timed() {
    local began
    began=$(date +%s%N)
    "$@" 9>&-
    say "      ${1##*/} took $((($(date +%s%N) - began) / 1000000)) ms"
}

# A shell, a web server and a client in 2 MB; every applet is a link.
import_busybox() {
    local root applet
    need_packages busybox-static procps 9>&-
    root=$(mktemp -d)
    mkdir -p "$root/bin" "$root/tmp" "$root/www"
    cp /bin/busybox "$root/bin/"
    for applet in sh httpd wget timeout sleep hostname; do ln -s busybox "$root/bin/$applet"; done
    pack_image "$IMAGE" "$root" "$root/image.tar" '["/bin/sh", "-c"]'
    ctr_node images import "$root/image.tar" > /dev/null
    rm -r "$root"
}

in_namespace() { kubectl_admin --namespace "$NAMESPACE" "$@"; }

manifest() {
    cat << YAML
apiVersion: v1
kind: Pod
metadata: {name: one}
spec:
  terminationGracePeriodSeconds: 1
  containers:
  - {name: main, image: $IMAGE, args: ["echo spoken; hostname > /www/index.html; httpd -f -p 8080 -h /www"]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: two}
spec:
  replicas: 2
  selector: {matchLabels: {app: two}}
  template:
    metadata: {labels: {app: two}}
    spec:
      terminationGracePeriodSeconds: 1
      containers:
      - name: main
        image: $IMAGE
        args: ["sleep 2; hostname > /www/index.html; exec httpd -f -p 8080 -h /www"]
        readinessProbe: {httpGet: {path: /, port: 8080}, periodSeconds: 1}
---
apiVersion: v1
kind: Service
metadata: {name: two}
spec: {selector: {app: two}, ports: [{port: 80, targetPort: 8080}]}
YAML
}

# fetch URL from this machine, pod_fetch URL from a pod.
fetch() { timeout 10 busybox wget -q -O - "$1"; }
pod_fetch() { in_namespace exec one -- timeout 10 wget -q -O - "$1"; }

service_reaches_both() {
    local address seen
    address=$(in_namespace get service two -o jsonpath='{.spec.clusterIP}')
    seen=$(for _ in {1..30}; do fetch "http://$address/"; done | sort -u | wc -l)
    [ "$seen" = 2 ] || { echo "30 requests reached $seen pods"; return 1; }
}

pod_reaches_service() {
    local address
    address=$(in_namespace get service two -o jsonpath='{.spec.clusterIP}')
    pod_fetch "http://$address/" | grep -q '^two-'
}

# A listener on the node's address, as MLflow or Redis would be.
pod_reaches_node() {
    local root pid outcome=0
    root=$(mktemp -d)
    echo from-the-node > "$root/index.html"
    busybox httpd -f -p "$NODE_IP:8099" -h "$root" 9>&- &
    pid=$!
    sleep 0.5
    pod_fetch "http://$NODE_IP:8099/" | grep -qx from-the-node || outcome=1
    kill "$pid"
    rm -r "$root"
    return "$outcome"
}

# The address is one that no machine has (RFC 5737): the refusal can only come from the packet rules.
pod_is_confined() { { pod_fetch http://203.0.113.1/ 2>&1 || true; } | grep 'Connection refused'; }

check_workloads() {
    timed import_busybox
    kubectl_admin create namespace "$NAMESPACE" > /dev/null
    wait_for "default service account exists in $NAMESPACE" 60 kube-controller-manager \
        in_namespace get serviceaccount default
    manifest | in_namespace apply -f - > /dev/null
    check "pod becomes Ready" in_namespace wait --for=condition=Ready pod/one --timeout=60s --request-timeout=70s
    check "logs" grep -qx spoken <(in_namespace logs one)
    check "exec" grep -qx one <(in_namespace exec one -- hostname)
    check "API server's proxy to a pod" grep -qx one \
        <(kubectl_admin get --raw "/api/v1/namespaces/$NAMESPACE/pods/one:8080/proxy/")
    check "Deployment rolls out" in_namespace rollout status deployment/two --timeout=60s --request-timeout=70s
    check "Service reaches both replicas from this machine" service_reaches_both
    check "a pod reaches the Service" pod_reaches_service
    check "a pod reaches what listens on the node's address" pod_reaches_node
    check "a pod reaches nothing beyond" pod_is_confined
    check "pretended GPUs" "$here/gpu.sh" 2
    check "pretended GPUs are allocatable" grep -qx 2 \
        <(kubectl_admin get node "$NODE_NAME" -o jsonpath='{.status.allocatable.nvidia\.com/gpu}')
    check "pretended GPUs go away" "$here/gpu.sh" 0
    check "namespace goes away" kubectl_admin delete namespace "$NAMESPACE" --timeout=120s --request-timeout=130s
}

# As when a session's processes are ended one by one: containers go on, everything that knew of them is dead.
kill_everything() {
    local name pid
    for name in "$RUN"/pids/*; do
        pid=$(own_pid "${name##*/}") && kill -KILL "$pid"
    done
    stop_shims
}

nothing_left() {
    local left
    left=$({
        cgroup_directories
        grep -E " ($RUN|$STATE)" /proc/self/mountinfo
        ip -o link show "$LINK"
        iptables-save | grep -E 'KUBE-|CNI-|RAGOPS-'
        ip6tables-save | grep -E 'KUBE-|CNI-|RAGOPS-'
        ls -d "$RUN" "$STATE" /run/netns/cni-*
        find /var/lib/cni /var/log/pods /run/containerd -mindepth 1
        pgrep -f "^etcd --name $NODE_NAME|^$BIN/kube|containerd.*($RUN|$STATE)"
    } 2> /dev/null || true)
    [ -z "$left" ] || { echo "$left"; return 1; }
}

check_life() {
    timed "$here/down.sh"
    timed "$here/up.sh"
    check "healthy" "$here/status.sh"
    check_workloads
    timed "$here/up.sh"
    manifest | kubectl_admin apply -f - > /dev/null
    check "pod becomes Ready" kubectl_admin wait --for=condition=Ready pod/one --timeout=60s --request-timeout=70s
    kill_everything
    check "noticed as dead" bash -c "! '$here/status.sh'"
    timed "$here/up.sh"
    check "healthy after death" "$here/status.sh"
    check "no pod came back" test -z "$(kubectl_admin get pods --all-namespaces -o name)"
    check_workloads
    timed "$here/down.sh"
    check "nothing is left" nothing_left
    timed "$here/down.sh"
    timed "$here/up.sh"
}

main() {
    if [ "${1:-}" = workloads ]; then check_workloads; else check_life; fi
    [ "$failures" = 0 ] || die "$failures check(s) failed"
    say "all checks passed; the cluster is up"
}

main "$@"; exit
