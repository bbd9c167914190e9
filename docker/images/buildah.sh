# shellcheck shell=bash
# Build with buildah, without a Docker engine, and load into the local cluster; sourced.

BUILD_RUN=/run/ragops-images
ROOTFS_IMAGE=localhost/ragops/rootfs:bookworm

# overlay, unless this machine cannot mount one (a container on an overlay): vfs copies whole layers, but works anywhere.
storage_driver() {
    local probe driver=overlay
    probe=$(mktemp -d -p "$CACHE")
    mkdir "$probe/lower" "$probe/upper" "$probe/work" "$probe/merged"
    mount -t overlay overlay "$probe/merged" \
        -o "lowerdir=$probe/lower,upperdir=$probe/upper,workdir=$probe/work" 2> /dev/null || driver=vfs
    ! mountpoint -q "$probe/merged" || umount "$probe/merged"
    rm -r "$probe"
    printf '%s\n' "$driver"
}

builder() { timeout 1800 buildah "${STORAGE[@]}" "$@"; }

prepare_builder() {
    local driver
    # Debian 13's buildah does not start without netavark, although nothing here uses a container network.
    need_packages buildah netavark debootstrap ca-certificates 9>&-
    (umask 077 && mkdir -p "$BUILD_RUN")
    driver=$(storage_driver)
    STORAGE=(--root "$CACHE/containers-$driver" --runroot "$BUILD_RUN" --storage-driver "$driver")
}

built() { builder inspect --type image "$1" > /dev/null 2>&1; }

# The base of bases: Debian 12 with its Python 3.11, made where no registry need answer.
make_rootfs() {
    local container root
    ! built "$ROOTFS_IMAGE" || return 0
    say "making $ROOTFS_IMAGE by debootstrap"
    container=$(builder from scratch)
    root=$(builder mount "$container")
    debootstrap --variant minbase --include python3,python3-venv,ca-certificates bookworm "$root" \
        "$(debian_mirror)" > "$CACHE/debootstrap.log" 2>&1 \
        || { tail -n 20 "$CACHE/debootstrap.log" >&2; die "debootstrap failed; its words are in $CACHE/debootstrap.log"; }
    rm -rf "$root"/var/cache/apt/archives/*.deb "$root"/var/lib/apt/lists/* "$root"/usr/share/{doc,man,locale}/*
    builder umount "$container" > /dev/null
    builder commit --quiet --rm "$container" "$ROOTFS_IMAGE" > /dev/null
}

# Volumes that give pip inside a build this machine's settings, certificates and local wheels; fills VOLUMES. The
# settings are those of the project's environment: the system's Python may have no pip, or there may be none.
pip_volumes() {
    local settings="$BUILD_RUN/pip.conf" python="${PYTHON:-.venv/bin/python}" mounts mount
    command -v "$python" > /dev/null \
        || die "$python: expected the Python whose pip settings a build uses; it is not there. Run 'make venv'"
    mounts=$("$python" docker/images/pip_settings.py "$settings") || die "pip's settings were not read; see above"
    VOLUMES=(--volume /etc/ssl/certs:/etc/ssl/certs:ro --volume "$settings:/etc/pip.conf:ro")
    while read -r mount; do
        [ -z "$mount" ] || VOLUMES+=(--volume "$mount:ro")
    done <<< "$mounts"
}

# limit FLAG: this shell's own limit, at most 32768. buildah would raise limits, and one of its releases lowers its own to
# that number first; raising fails where the machine lacks CAP_SYS_RESOURCE.
limit() {
    local value
    value=$(ulimit "-H$1")
    if [ "$value" = unlimited ] || [ "$value" -gt 32768 ]; then value=32768; fi
    printf '%s:%s\n' "$value" "$value"
}

# build_image NAME REFERENCE PARENT
build_image() {
    local log="$CACHE/image-$1.log"
    ! built "$2" || return 0
    say "building $2"
    pip_volumes
    builder build --isolation chroot --network host --file "docker/$1.Dockerfile" --tag "$2" \
        --build-arg "BASE_IMAGE=$3" "${VOLUMES[@]}" --ulimit "nofile=$(limit n)" --ulimit "nproc=$(limit u)" . \
        > "$log" 2>&1 \
        || { tail -n 30 "$log" >&2; die "docker/$1.Dockerfile did not build; all of it is in $log"; }
    forget_others "$1" "$2"
}

# Keeps one build of each image, so that the cache does not grow with every edit.
forget_others() {
    local other
    builder images --format '{{.Name}}:{{.Tag}}' | { grep "^localhost/ragops/$1:" || true; } | while read -r other; do
        [ "$other" = "$2" ] || builder rmi "$other" > /dev/null
    done
}

cluster_answers() { [ -S "$CONTAINERD_SOCKET" ] && ctr_node version > /dev/null 2>&1; }

loaded() { cluster_answers && ctr_node images list --quiet "name==$1" | grep -qxF "$1"; }

# From the builder's store straight into the cluster's: an archive between them would be 1.6 GB for each image.
load_image() {
    cluster_answers || die "the cluster is not up: run docker/cluster/up.sh, then this again"
    say "loading $1"
    builder push --quiet "$1" "docker-archive:/dev/stdout:$1" \
        | timeout 600 ctr --address "$CONTAINERD_SOCKET" --namespace k8s.io images import - > /dev/null \
        || die "$1 was not loaded into the cluster; see above"
}

# An image in the cluster spares everything, one in the builder's store spares the build.
deliver() {
    local name=$1 reference=$2
    ! loaded "$reference" || return 0
    make_rootfs
    build_image base "$BASE_REFERENCE" "$ROOTFS_IMAGE"
    [ "$name" = base ] || build_image "$name" "$reference" "$BASE_REFERENCE"
    load_image "$reference"
}
