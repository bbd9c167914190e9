# shellcheck shell=bash
# A one-layer image archive from a directory, with tar alone; sourced.

# pack_image REFERENCE ROOT ARCHIVE ENTRYPOINT: ENTRYPOINT is a JSON list. The format is `docker save`'s.
pack_image() {
    local work layer config
    work=$(mktemp -d)
    tar --create --sort name --owner 0 --group 0 --numeric-owner --mtime @0 --directory "$2" --file "$work/layer.tar" .
    layer=$(sha256sum < "$work/layer.tar" | cut -d ' ' -f 1)
    printf '{"architecture":"%s","os":"linux","config":{"Entrypoint":%s},"rootfs":{"type":"layers","diff_ids":["sha256:%s"]}}' \
        "$(dpkg --print-architecture)" "$4" "$layer" > "$work/config"
    config=$(sha256sum < "$work/config" | cut -d ' ' -f 1).json
    mv "$work/config" "$work/$config"
    printf '[{"Config":"%s","RepoTags":["%s"],"Layers":["layer.tar"]}]' "$config" "$1" > "$work/manifest.json"
    mkdir -p "$(dirname "$3")"
    tar --create --directory "$work" --file "$3.part" manifest.json "$config" layer.tar
    mv "$3.part" "$3"
    rm -r "$work"
}

# Imports the pause image, packing it first where the cache lacks it.
import_pause() {
    local archive="$IMAGE_ARCHIVES/pause.tar" root
    if [ ! -e "$archive" ]; then
        root=$(mktemp -d)
        install -m 755 "$BIN/pause" "$root/pause"
        pack_image "$PAUSE_IMAGE" "$root" "$archive" '["/pause"]'
        rm -r "$root"
    fi
    ctr_node images import "$archive" > /dev/null
}
