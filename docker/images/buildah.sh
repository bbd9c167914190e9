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
    mkdir -p "$CACHE" "$IMAGE_ARCHIVES"
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

# Volumes that give pip inside a build this machine's settings, certificates and local wheels; fills VOLUMES and
# FIND_LINKS.
pip_volumes() {
    local settings="$BUILD_RUN/pip.conf" path
    VOLUMES=(--volume /etc/ssl/certs:/etc/ssl/certs:ro --volume "$settings:/etc/pip.conf:ro")
    while read -r path; do
        [ -z "$path" ] || VOLUMES+=(--volume "$path:$path:ro")
    done < <(python3 docker/images/pip_settings.py "$settings")
    FIND_LINKS=$(sed -n 's/^find-links = //p' "$settings")
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
        --build-arg "BASE_IMAGE=$3" --build-arg "PIP_FIND_LINKS=$FIND_LINKS" "${VOLUMES[@]}" \
        --ulimit "nofile=$(limit n)" --ulimit "nproc=$(limit u)" . > "$log" 2>&1 \
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

archive_of() { printf '%s/%s.tar\n' "$IMAGE_ARCHIVES" "$(basename "${1/:/-}")"; }

make_archive() {
    local archive
    archive=$(archive_of "$2")
    [ ! -e "$archive" ] || return 0
    rm -f "$IMAGE_ARCHIVES/$1"-*.tar "$IMAGE_ARCHIVES/$1"-*.tar.part
    builder push --quiet --disable-compression "$2" "docker-archive:$archive.part:$2"
    mv "$archive.part" "$archive"
}

loaded() { ctr_node images list --quiet "name==$1" | grep -qxF "$1"; }

load_image() {
    { [ -S "$CONTAINERD_SOCKET" ] && ctr_node version > /dev/null 2>&1; } || die "the cluster is not up: run docker/cluster/up.sh, then this again"
    loaded "$1" || { say "loading $1"; timeout 600 ctr --address "$CONTAINERD_SOCKET" --namespace k8s.io images import "$(archive_of "$1")" > /dev/null; }
}

# A cached archive spares the build, an image in the cluster spares the import.
deliver() {
    local name=$1 reference=$2
    if [ ! -e "$(archive_of "$reference")" ]; then
        make_rootfs
        build_image base "$BASE_REFERENCE" "$ROOTFS_IMAGE"
        [ "$name" = base ] || build_image "$name" "$reference" "$BASE_REFERENCE"
        make_archive "$name" "$reference"
    fi
    load_image "$reference"
}
