#!/usr/bin/env bash
# bare_machine.sh [TARGET]: runs `make TARGET` (demo unless named) of the committed code as a new
# user of a Debian with nothing but python3, make and gcc, then once more with the packages that
# the first try said are missing. Needs root and debootstrap.
#
# The machine is a folder, build/bare-machine; the user sees neither our files nor our settings
# of pip, save for PIP_INDEX_URL and the certificates.
set -euo pipefail
target=${1:-demo}
root=$(realpath -m build/bare-machine)
certificates=/etc/ssl/certs/ca-certificates.crt

test -e "$root/usr/bin/make" || debootstrap --variant=minbase \
  --include=python3,make,gcc,ca-certificates bookworm "$root" ${DEBIAN_MIRROR:-}
cp "$certificates" "$root$certificates"
cp /etc/resolv.conf "$root/etc/resolv.conf"
chroot "$root" id ada >/dev/null 2>&1 || chroot "$root" useradd --create-home ada
rm -rf "$root/home/ada/podium"
mkdir -p "$root/home/ada/podium"
git archive HEAD | tar -C "$root/home/ada/podium" -xf -
chroot "$root" sh -c 'chown -R ada: ~ada/podium'

# inside USER COMMAND: in namespaces of its own, so that no process outlives the command.
inside() {
  unshare --mount --pid --fork --kill-child bash -euc '
    mount --make-rprivate /
    mount -t proc proc "$0/proc"
    mount --rbind /dev "$0/dev"
    mount --rbind /sys "$0/sys"
    user=$1; shift
    exec env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 \
      ${PIP_INDEX_URL:+PIP_INDEX_URL=$PIP_INDEX_URL} PIP_CERT="$CERTIFICATES" SSL_CERT_FILE="$CERTIFICATES" \
      HOME=$(chroot "$0" sh -c "echo ~$user") chroot --userspec="$user" "$0" bash -c "cd ~ && $1"
  ' "$root" "$@"
}
export CERTIFICATES=$certificates

if inside ada "cd podium && make $target" 2>&1 | tee "$root/said"; then exit; fi
packages=$(inside ada "cd podium && scripts/prerequisites.sh --packages")
test -n "$packages" || exit 1
inside root "apt-get -qq update && apt-get -qq install --yes --no-install-recommends $packages >/dev/null"
inside ada "cd podium && make $target"
