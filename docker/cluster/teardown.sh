# shellcheck shell=bash
# Take everything of the node away, whatever state it is in; sourced. Each step succeeds when there is nothing to do.

# Politely in reverse order of dependence; the API server goes early so that the others stop acting.
stop_components() {
    local name
    for name in kube-proxy kubelet kube-scheduler kube-controller-manager kube-apiserver containerd etcd; do
        stop "$name"
    done
}

# Shims carry our socket's path in their arguments, and no other process is one of ours.
stop_shims() {
    local arguments pid
    for arguments in /proc/[0-9]*/cmdline; do
        pid=${arguments#/proc/}
        pid=${pid%/cmdline}
        if tr '\0' '\n' 2> /dev/null < "$arguments" | sed -n '1{/containerd-shim/!q};p' 2> /dev/null \
            | grep -qxF "$CONTAINERD_SOCKET"; then
            kill -KILL "$pid" 2> /dev/null || true
        fi
    done
}

cgroup_directories() { find /sys/fs/cgroup -depth -type d -path "*/$CGROUP*" 2> /dev/null || true; }

cgroup_members() {
    local directory
    cgroup_directories | while read -r directory; do cat "$directory/cgroup.procs" 2> /dev/null || true; done | sort -u
}

# Containers outlive a killed shim; their cgroup still names them.
stop_containers() {
    local pid deadline=$((SECONDS + 15))
    while [ -n "$(cgroup_members)" ]; do
        [ "$SECONDS" -lt "$deadline" ] || die "processes in cgroup $CGROUP do not end: $(cgroup_members | xargs)"
        for pid in $(cgroup_members); do kill -KILL "$pid" 2> /dev/null || true; done
        sleep 0.1
    done
    cgroup_directories | while read -r directory; do rmdir "$directory" 2> /dev/null || true; done
}

# The deepest first. mountinfo's field 5 is the mount point, with blanks as \040.
unmount_all() {
    local point
    awk -v run="$RUN/" -v state="$STATE/" 'index($5 "/", run) == 1 || index($5 "/", state) == 1 { print $5 }' \
        /proc/self/mountinfo | sort -r | while read -r point; do
        umount --lazy "$(printf '%b' "$point")" 2> /dev/null || true
    done
}

# What the kubelet, shims and CNI keep in places of their own choice, found by the ids of our pods and sandboxes.
remove_strays() {
    local path
    if [ "$(readlink /var/log/pods)" = "$STATE/pod-logs" ]; then rm /var/log/pods; fi
    for path in "$STATE"/kubelet/pods/*; do
        rm -rf /var/log/pods/*_"${path##*/}"
    done
    for path in "$STATE"/containerd/io.containerd.grpc.v1.cri/sandboxes/*; do
        rm -f /var/lib/cni/results/*-"${path##*/}"-*
    done
    for path in "$RUN"/containerd/io.containerd.runtime.v2.task/k8s.io/*/address; do
        [ ! -e "$path" ] || rm -f "$(sed 's#^unix://##' "$path")"
    done
    if [ -d /var/log/containers ]; then find /var/log/containers -xtype l -delete; fi
    # Our kubelet's root is elsewhere; beside another kubelet's directories its sockets stay.
    if [ "$(ls -A /var/lib/kubelet 2> /dev/null)" = device-plugins ]; then
        rm -rf /var/lib/kubelet/device-plugins
    fi
    rmdir /var/lib/kubelet /run/containerd/s /run/containerd /var/log/pods /var/log/containers /var/lib/cni/results \
        /var/lib/cni 2> /dev/null || true
}

tear_down() {
    stop_components
    stop_shims
    stop_containers
    unmount_all
    remove_strays
    remove_link
    remove_rules
    restore_sysctls
    rm -rf "${RUN:?}" "${STATE:?}"
}
