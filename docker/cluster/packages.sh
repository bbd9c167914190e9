# shellcheck shell=bash
# Debian packages that the scripts need, installed when missing; sourced.

missing_packages() {
    local package
    for package in "$@"; do
        dpkg-query --show --showformat '${db:Status-Status}' "$package" 2> /dev/null | grep -qx installed \
            || printf '%s\n' "$package"
    done
}

# The node runs its own etcd and containerd: the services that their packages bring must not start. Debian asks
# policy-rc.d before it starts one; 101 means no. The machine's own policy stays; ours may be left by a killed run.
install_packages() (
    policy=/usr/sbin/policy-rc.d
    if [ ! -e "$policy" ] || grep -q airflow-provider-ragops "$policy"; then
        trap 'rm -f "$policy"' EXIT
        printf '#!/bin/sh\n# Of airflow-provider-ragops, while it installs packages.\nexit 101\n' > "$policy"
        chmod 755 "$policy"
    fi
    DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300 install -qq --no-install-recommends "$@" > /dev/null
)

# The package lists are read anew only where they are too old, or absent.
need_packages() {
    local missing
    mapfile -t missing < <(missing_packages "$@")
    [ ${#missing[@]} -gt 0 ] || return 0
    say "installing ${missing[*]}"
    install_packages "${missing[@]}" 2> /dev/null && return 0
    apt-get -qq update || say "apt-get update failed; trying with the lists at hand"
    install_packages "${missing[@]}" || die "could not install ${missing[*]}; apt-get's words are above"
}

# The machine's own Debian mirror, so that no host name is written in this repository.
debian_mirror() {
    local mirror
    mirror=$(configured_mirror)
    if [ -z "$mirror" ]; then
        apt-get -qq update >&2
        mirror=$(configured_mirror)
    fi
    [ -n "$mirror" ] || die "this machine's apt configuration names no Debian mirror"
    printf '%s\n' "$mirror"
}

configured_mirror() {
    local uri
    # shellcheck disable=SC2016
    uri=$(apt-get indextargets --format '$(LABEL)|$(REPO_URI)|$(CREATED_BY)' \
        | awk -F'|' '$1 == "Debian" && $3 == "Packages" && !found { print $2; found = 1 }')
    case "$uri" in
        mirror+file:*) first_mirror "${uri#mirror+file:}" ;;
        *) printf '%s\n' "$uri" ;;
    esac
}

# Debian's cloud images name a file of mirrors, one a line and the best first, which apt alone understands.
first_mirror() { awk '!/^[[:blank:]]*(#|$)/ { print $1; exit }' "${1%/}"; }
