#!/usr/bin/env bash
# Build the Kubernetes binaries of the local one-node cluster into the cache, once per version (4 minutes on two cores).
#
# Source: Debian 12's source package `kubernetes` (1.20.2, complete with vendored libraries), compiled with Debian 12's
# own Go 1.19. Newer Debian releases ship only kubectl's sources, so Debian 12's index is read through private apt
# lists: the machine's own apt state is left alone, and this works on Debian 13 too.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
for part in paths packages; do
    # shellcheck source=/dev/null
    . "$here/$part.sh"
done
export SAY_AS="cluster build"
work="$CACHE/build-$KUBE_VERSION"
goroot="$work/goroot"
source_tree="$work/src"

debian_12() {
    apt-get -o Dir::Etc::sourcelist="$work/sources.list" -o Dir::Etc::sourceparts=- \
        -o Dir::State::Lists="$work/lists" -o Dir::Cache="$work" -o Dir::Cache::archives="$work/archives" \
        -o Dir::State::status=/dev/null -o APT::Sandbox::User=root -qq "$@"
}

fetch_sources() {
    local mirror keyring=/usr/share/keyrings/debian-archive-keyring.gpg
    mirror=$(debian_mirror)
    printf '%s [signed-by='"$keyring"'] '"$mirror"' bookworm main\n' deb deb-src > sources.list
    debian_12 update
    debian_12 source --download-only kubernetes
    debian_12 download golang-1.19-go golang-1.19-src
}

# The Go package links to its sources in /usr/share; one real GOROOT is assembled here.
unpack_go() {
    local deb link shared
    for deb in golang-1.19-*.deb; do dpkg-deb -x "$deb" go-root; done
    cp -r go-root/usr/lib/go-1.19 "$goroot"
    find "$goroot" -type l | while read -r link; do
        shared="go-root/usr/share/go-1.19/${link#"$goroot"/}"
        if [ -e "$shared" ]; then rm "$link" && cp -r "$shared" "$link"; fi
    done
}

unpack_kubernetes() {
    dpkg-source --no-check -x kubernetes_*.dsc "$source_tree" > /dev/null
    patch --quiet --strip 1 --directory "$source_tree" < "$here/reflect2.patch"
    mkdir -p "$source_tree/.go/src/k8s.io"
    ln -sfn "$source_tree" "$source_tree/.go/src/k8s.io/kubernetes"
}

# Less work than a plain `make`: of all generated files the sources lack only the OpenAPI definitions.
compile_kubernetes() {
    local programs="kube-apiserver kube-controller-manager kube-scheduler kubelet kube-proxy kubectl"
    export KUBE_GIT_VERSION="v$KUBE_VERSION" KUBE_GIT_COMMIT=debian KUBE_GIT_TREE_STATE=clean
    export KUBE_GIT_MAJOR=1 KUBE_GIT_MINOR=20
    cd "$source_tree/.go/src/k8s.io/kubernetes"
    # shellcheck disable=SC2086
    { make gen_openapi && hack/make-rules/build.sh ${programs//kube/cmd/kube}; } > "$CACHE/build.log" 2>&1 \
        || { tail -n 30 "$CACHE/build.log" >&2; die "compile failed; the whole of it is in $CACHE/build.log"; }
    cd "$work"
}

kubernetes_output() { dirname "$(find "$source_tree/_output" -name kube-apiserver -type f -perm -u+x -print -quit)"; }

# The pause container needs nothing but a static program that sleeps and reaps.
compile_pause() {
    mkdir -p pause
    cp "$here/pause.go" pause/main.go
    (cd pause && GOFLAGS='' go build -o pause main.go)
}

# "providerless" leaves out the clouds' volumes and load balancers, a third of all code. GOGC is for the compiler,
# itself a Go program: less of its time goes into collecting garbage.
build_all() {
    rm -rf "$work"
    mkdir -p "$work/lists/partial" "$work/archives/partial"
    cd "$work"
    say "fetching Debian 12's sources of Kubernetes $KUBE_VERSION and its Go 1.19"
    fetch_sources
    unpack_go
    unpack_kubernetes
    export GOROOT="$goroot" PATH="$goroot/bin:$PATH" GOPATH="$source_tree/.go" GO111MODULE=off
    export GOFLAGS="-mod=vendor -tags=providerless" GOGC=400 GOCACHE="$work/gocache" CGO_ENABLED=0 HOME="$work"
    say "compiling (minutes); progress in $CACHE/build.log"
    compile_kubernetes
    compile_pause
}

# In one step, so that an interrupted build leaves nothing that looks complete. Older builds go.
keep_binaries() {
    mkdir bin
    install -m 755 "$(kubernetes_output)"/kube* pause/pause bin/
    rm -rf "$CACHE"/kubernetes-*
    mv bin "$BIN"
    cd /
    rm -rf "$work"
}

main() {
    refuse_odd_cache
    [ ! -e "$BIN" ] || return 0
    mkdir -p "$CACHE"
    exec 8> "$CACHE/build.lock"
    flock --timeout 1800 8 || die "another build holds $CACHE/build.lock for 30 minutes"
    [ ! -e "$BIN" ] || return 0
    need_packages dpkg-dev make rsync jq 8>&-
    build_all
    keep_binaries
    say "done in $((SECONDS / 60)) min $((SECONDS % 60)) s: $BIN"
}

main; exit
