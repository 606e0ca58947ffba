#!/usr/bin/env bash
# containers.sh CMD...: runs buildah or podman with storage of this checkout's own, in
# $PODIUM_CONTAINERS, so that images build and run inside of containers and on CI machines too:
# layers are overlaid where the kernel lets us and copied (vfs) where not, runc accepts hybrid
# cgroups, and the limits can be set without CAP_SYS_RESOURCE.
#
# containers.sh base NAME: makes the base image NAME from Debian packages, where no registry of
# images is reachable. Needs root and debootstrap.
set -euo pipefail
here=$(realpath -m "${PODIUM_CONTAINERS:-build/containers}")
case $1 in
  base) programs="buildah debootstrap" ;;
  podman) programs="podman runc catatonit" ;;
  *) programs=$1 ;;
esac
for program in $programs; do
  command -v "$program" >/dev/null || {
    echo "images need $program, which is missing: apt-get install $program" >&2
    exit 1
  }
done
mkdir -p "$here"

# vfs copies all of an image for every container: half a minute instead of a second.
probe_driver() {
  local trial=$here/trial
  mkdir -p "$trial"/{lower,upper,work,merged}
  if mount -t overlay overlay "$trial/merged" \
    -o "lowerdir=$trial/lower,upperdir=$trial/upper,workdir=$trial/work" 2>/dev/null; then
    umount "$trial/merged"
    echo overlay
  else
    echo vfs
  fi
}
if [ ! -e "$here/driver" ]; then probe_driver > "$here/driver"; fi
driver=$(cat "$here/driver")

cat > "$here/storage.conf" <<EOF
[storage]
driver = "$driver"
graphroot = "$here/$driver"
runroot = "$here/run-$driver"
EOF
cat > "$here/containers.conf" <<EOF
[containers]
default_ulimits = ["nofile=1024:1024", "nproc=1024:1024"]
[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
events_logger = "file"
EOF
export CONTAINERS_STORAGE_CONF="$here/storage.conf" CONTAINERS_CONF="$here/containers.conf"

make_base() {
  local name=$1 rootfs=$here/rootfs
  if buildah images --quiet "$name" >/dev/null 2>&1; then return; fi
  test -e "$rootfs/usr/bin/pip3" || debootstrap --variant=minbase \
    --include=python3,python3-venv,python3-pip,ca-certificates,libnuma1 bookworm "$rootfs" ${DEBIAN_MIRROR:-}
  local container root
  container=$(buildah from scratch)
  root=$(buildah mount "$container")
  tar -C "$rootfs" --numeric-owner --exclude='./dev/*' --exclude='./proc/*' --exclude='./sys/*' \
    --exclude='./var/cache/apt/*' --exclude='./var/lib/apt/lists/*' --exclude='./usr/share/doc/*' \
    --exclude='./usr/share/man/*' --exclude='./usr/share/locale/*' -cf - . | tar -C "$root" -xf -
  buildah config --env PATH=/usr/local/bin:/usr/bin:/bin "$container"
  buildah commit --rm "$container" "$name"
}

case $1 in
  base) make_base "$2" ;;
  *) exec "$@" ;;
esac
