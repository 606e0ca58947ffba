#!/usr/bin/env bash
# images.sh COMMAND: the images of Podium, with docker, buildah or podman: whichever is here, or
# the one that $BUILDER names. As root, buildah and podman get storage of this checkout's own
# (containers.sh).
#
#   build NAME [OPTION]...   builds NAME from this folder
#   save NAME FILE           writes NAME as an archive, which kind, k3d, ctr and docker load
#   push NAME TARGET         pushes NAME to TARGET; PLAIN_HTTP=1 for a registry without TLS
#
# $BASE is the image that all begin with. Where its registry is out of reach, root gets one made of
# Debian's packages instead.
set -euo pipefail
cd "$(dirname "$0")/.."
debian=localhost/python:3.11-bookworm

choose_builder() {
  if docker info >/dev/null 2>&1; then echo docker; return; fi
  for each in buildah podman; do
    if command -v $each >/dev/null; then echo $each; return; fi
  done
  echo "images are built by docker, buildah or podman: none is here (Debian: apt-get install buildah)" >&2
  exit 1
}
builder=${BUILDER:-$(choose_builder)}

own() { # buildah or podman
  if [ "$(id -u)" = 0 ]; then scripts/containers.sh "$@"; else "$@"; fi
}

base_image() {
  if [ "$builder" = docker ]; then echo "$BASE"; return; fi
  if own "$builder" pull -q "$BASE" >&2 2>/dev/null; then echo "$BASE"; return; fi
  if [ "$(id -u)" != 0 ] || ! command -v debootstrap buildah >/dev/null; then
    echo "cannot pull $BASE: name a base in BASE, or build as root with buildah and debootstrap" >&2
    exit 1
  fi
  echo "cannot pull $BASE: making $debian of Debian's packages" >&2
  scripts/containers.sh base $debian >&2
  echo $debian
}

build() {
  local name=$1 base
  shift
  base=$(base_image)
  case $builder in
    docker) docker build --build-arg BASE="$base" "$@" -t "$name" . ;;
    podman) own podman build --timestamp 0 --build-arg BASE="$base" "$@" -t "$name" . ;;
    buildah) own buildah bud --layers --isolation chroot --timestamp 0 --build-arg BASE="$base" "$@" -t "$name" . ;;
  esac
}

save() {
  mkdir -p "$(dirname "$2")"
  rm -f "$2"
  case $builder in
    docker) docker save -o "$2" "$1" ;;
    *) own "$builder" push -q "$1" "docker-archive:$2:$1" ;;
  esac
}

push() {
  case $builder in
    docker) docker tag "$1" "$2" && docker push "$2" ;;
    # A sixth smaller than gzip; containerd, CRI-O and docker since 23 read it.
    *) own "$builder" push --compression-format zstd ${PLAIN_HTTP:+--tls-verify=false} "$1" "docker://$2" ;;
  esac
}

"$@"
