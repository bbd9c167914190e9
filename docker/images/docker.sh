# shellcheck shell=bash
# Build with a Docker engine and load into kind; sourced. Not tried by this project's tests: no engine runs there.

prepare_builder() { docker info > /dev/null 2>&1 || die "no Docker engine answers, and kind needs one"; }

docker_build() {
    docker image inspect "$2" > /dev/null 2>&1 || {
        say "building $2"
        docker build --file "docker/$1.Dockerfile" --tag "$2" --build-arg "PIP_FIND_LINKS=${PIP_FIND_LINKS:-}" "${@:3}" .
    }
}

deliver() {
    docker_build base "$BASE_REFERENCE"
    [ "$1" = base ] || docker_build "$1" "$2" --build-arg "BASE_IMAGE=$BASE_REFERENCE"
    kind load docker-image "$2" --name "$KIND_NAME"
}
