# shellcheck shell=bash
# containerd, kubelet and kube-proxy, with directories and sockets of their own; sourced.

write_containerd_config() {
    cat > "$STATE/containerd.toml" << CONFIG
version = 2
root = "$STATE/containerd"
state = "$RUN/containerd"
[grpc]
address = "$CONTAINERD_SOCKET"
[plugins."io.containerd.internal.v1.opt"]
path = "$STATE/containerd-opt"
[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = "$PAUSE_IMAGE"
# Without CAP_SYS_RESOURCE every sandbox dies with "can't get final child's PID from pipe".
restrict_oom_score_adj = true
netns_mounts_under_state_dir = true
[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = "/usr/lib/cni"
conf_dir = "$STATE/cni"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
Root = "$RUN/runc"
CONFIG
}

write_cni_config() {
    mkdir -p "$STATE/cni"
    cat > "$STATE/cni/10-ragops.conflist" << CONFIG
{
  "cniVersion": "0.4.0",
  "name": "ragops",
  "plugins": [
    {
      "type": "bridge", "bridge": "$LINK", "isGateway": true, "hairpinMode": true,
      "ipam": {
        "type": "host-local", "dataDir": "$STATE/cni-addresses",
        "ranges": [[{"subnet": "$POD_CIDR", "gateway": "$NODE_IP"}]], "routes": [{"dst": "0.0.0.0/0"}]
      }
    },
    {"type": "portmap", "capabilities": {"portMappings": true}, "snat": true}
  ]
}
CONFIG
}

write_kubelet_config() {
    cat > "$STATE/kubelet.yaml" << CONFIG
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
address: $NODE_IP
readOnlyPort: 0
tlsCertFile: $PKI/kubelet.crt
tlsPrivateKeyFile: $PKI/kubelet.key
authentication:
  anonymous: {enabled: false}
  x509: {clientCAFile: $PKI/ca.crt}
  webhook: {enabled: true}
authorization: {mode: Webhook}
cgroupDriver: cgroupfs
cgroupRoot: /$CGROUP
enforceNodeAllocatable: [pods]
failSwapOn: false
volumePluginDir: $STATE/volume-plugins
# Images come from archives and from no registry: none is ever collected, and pods are evicted only on a full disk.
imageGCHighThresholdPercent: 100
evictionHard: {memory.available: 100Mi, nodefs.available: 300Mi, imagefs.available: 300Mi}
evictionPressureTransitionPeriod: 5s
nodeStatusUpdateFrequency: 1s
nodeStatusReportFrequency: 1m
CONFIG
}

write_kube_proxy_config() {
    cat > "$STATE/kube-proxy.yaml" << CONFIG
apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
mode: iptables
clientConnection: {kubeconfig: $PKI/kube-proxy.kubeconfig}
hostnameOverride: $NODE_NAME
bindAddress: $NODE_IP
clusterCIDR: $POD_CIDR
nodePortAddresses: [$POD_CIDR]
healthzBindAddress: 127.0.0.1:10256
metricsBindAddress: 127.0.0.1:10249
conntrack: {maxPerCore: 0, min: 0, tcpEstablishedTimeout: 0s, tcpCloseWaitTimeout: 0s}
CONFIG
}

# The pods' own cgroup: whatever runs in it is ours, also after containerd and its shims were killed.
make_cgroups() {
    local controller parent
    for controller in /sys/fs/cgroup/*/; do
        parent=${controller%/}
        [ "$(stat -fc %T "$parent")" = cgroupfs ] || continue
        mkdir -p "$parent/$CGROUP"
        # A version 1 cpuset starts empty and then admits no process.
        if [ -e "$parent/cpuset.cpus" ]; then
            cat "$parent/cpuset.cpus" > "$parent/$CGROUP/cpuset.cpus"
            cat "$parent/cpuset.mems" > "$parent/$CGROUP/cpuset.mems"
        fi
    done
    if [ -e /sys/fs/cgroup/cgroup.controllers ]; then make_unified_cgroup; fi
}

# Version 2: the kubelet refuses a root that lacks a controller which the machine has.
make_unified_cgroup() {
    local controller
    for controller in cpu cpuset memory hugetlb pids; do
        printf '+%s\n' "$controller" > /sys/fs/cgroup/cgroup.subtree_control 2> /dev/null || true
    done
    mkdir -p "/sys/fs/cgroup/$CGROUP"
}

# The kubelet's place for the pods' logs is not to be chosen, but a link leads it to ours, so that they go with the rest.
make_pod_logs() {
    mkdir -p "$STATE/pod-logs"
    [ -e /var/log/pods ] || ln -sfn "$STATE/pod-logs" /var/log/pods
}

start_containerd() { launch containerd containerd --config "$STATE/containerd.toml"; }

# Its credential and machine probes otherwise ask a cloud's metadata address and wait for another containerd.
start_kubelet() {
    AWS_EC2_METADATA_DISABLED=true launch kubelet "$BIN/kubelet" --config "$STATE/kubelet.yaml" --kubeconfig "$PKI/kubelet.kubeconfig" \
        --root-dir "$STATE/kubelet" --cert-dir "$PKI" --node-ip "$NODE_IP" --hostname-override "$NODE_NAME" \
        --container-runtime remote --container-runtime-endpoint "unix://$CONTAINERD_SOCKET" \
        --containerd "$CONTAINERD_SOCKET"
}

start_kube_proxy() { launch kube-proxy "$BIN/kube-proxy" --config "$STATE/kube-proxy.yaml"; }
