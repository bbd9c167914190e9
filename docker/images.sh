#!/usr/bin/env bash
# Build images from docker/NAME.Dockerfile and load them into the cluster; does nothing for those that are there.
#
# Usage: docker/images.sh NAME...    (base, training, serving)
# Prints one reference a line and writes build/images.env (RAGOPS_TRAINING_IMAGE=..., RAGOPS_SERVING_IMAGE=...).
# A tag is a digest of everything that the image is made from: an edit makes another image, no edit makes none.
#
# Which cluster: the one of docker/cluster (built with buildah), unless KUBECONFIG's context is one of kind, or
# RAGOPS_CLUSTER=kind (built with docker). Into any other cluster nothing can be loaded: name images that it can pull.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
export SAY_AS=images
for part in cluster/paths cluster/packages images/content; do
    # shellcheck source=/dev/null
    . "docker/$part.sh"
done
IMAGES_ENV=build/images.env

# local, other, or kind's name for a cluster as kind:NAME.
cluster_kind() {
    local context
    if [ -z "${KUBECONFIG:-}" ] || [ "$KUBECONFIG" = "$ADMIN_KUBECONFIG" ]; then
        [ "${RAGOPS_CLUSTER:-}" = kind ] && printf 'kind:kind\n' || printf 'local\n'
        return
    fi
    context=$(sed -n 's/^current-context: *"\{0,1\}kind-\([^"]*\)"\{0,1\}$/\1/p' "$KUBECONFIG")
    [ -n "$context" ] && printf 'kind:%s\n' "$context" || printf 'other\n'
}

variable_of() { printf 'RAGOPS_%s_IMAGE\n' "${1^^}"; }

record() {
    local variable
    variable=$(variable_of "$1")
    mkdir -p "$(dirname "$IMAGES_ENV")"
    { grep -v "^$variable=" "$IMAGES_ENV" 2> /dev/null || true; printf '%s=%s\n' "$variable" "$2"; } > "$IMAGES_ENV.part"
    mv "$IMAGES_ENV.part" "$IMAGES_ENV"
    printf '%s\n' "$2"
}

given_image() {
    local variable
    variable=$(variable_of "$1")
    [ -n "${!variable:-}" ] || die "KUBECONFIG names a cluster that images cannot be loaded into; build" \
        "docker/$1.Dockerfile, push it to a registry that the cluster pulls from, and set $variable"
    record "$1" "${!variable}"
}

reference_of() {
    local file="docker/$1.Dockerfile"
    [ -e "$file" ] || die "no such image: $file is not there"
    [ "$1" = base ] && printf '%s\n' "$BASE_REFERENCE" && return
    printf 'localhost/ragops/%s:%s\n' "$1" "$(content_tag "$file" "$BASE_REFERENCE")"
}

[ $# -gt 0 ] || die "usage: docker/images.sh NAME..., with NAME one of base, training, serving"
kind=$(cluster_kind)
case "$kind" in
    other) for name in "$@"; do given_image "$name"; done; exit 0 ;;
    kind:*) KIND_NAME=${kind#kind:}; . docker/images/docker.sh ;;
    local) refuse_odd_cache; . docker/images/buildah.sh ;;
esac
mkdir -p "$CACHE"
exec 9> "$CACHE/images.lock"
flock --timeout 1800 9 || die "another image build holds $CACHE/images.lock for 30 minutes"
prepare_builder
BASE_REFERENCE=localhost/ragops/base:$(content_tag docker/base.Dockerfile "$kind")
for name in "$@"; do
    began=$SECONDS
    reference=$(reference_of "$name")
    deliver "$name" "$reference"
    record "$name" "$reference"
    say "$name is there ($((SECONDS - began))s)"
done
