# shellcheck shell=bash
# An image is named by what it is made from, so that an unchanged one is never built twice; sourced, run in the root.

# What a Dockerfile copies from the context, one path a line.
copied_paths() {
    sed -e ':join' -e '/\\$/{N;s/\\\n//;b join' -e '}' "$1" \
        | awk 'toupper($1) == "COPY" && !/--from=/ { for (i = 2; i < NF; i++) if ($i !~ /^--/) print $i }'
}

image_files() {
    local path
    printf '%s\n' "$1"
    for path in $(copied_paths "$1"); do
        [ -e "$path" ] || die "$1 copies $path, which is not there"
        find "$path" -type f -not -path '*/__pycache__/*'
    done | LC_ALL=C sort
}

# content_tag DOCKERFILE PARENT: 12 digits of a digest over names and contents of the files, and the parent's name.
content_tag() {
    { printf '%s\n' "$2"; image_files "$1" | xargs -d '\n' sha256sum; } | sha256sum | cut -c 1-12
}
