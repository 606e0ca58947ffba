"""`make cluster-test`: the evaluation profile on a real cluster, and a table of what holds there.

The images must be in the cluster (docs/install.md); KUBECONFIG names it. Everything happens in the
namespace podium-cluster-test, which must not exist and is removed in the end (--keep leaves it).
"""

import argparse
import os
import subprocess
import sys
import time

from cluster.checks import CHECKS
from cluster.finding import NotSo
from cluster.images import watched_images
from cluster.release import CommandFailed, Release, missing_programs

FAILURES = (NotSo, CommandFailed, subprocess.TimeoutExpired)


def main() -> int:
    parser = argparse.ArgumentParser(prog="make cluster-test")
    parser.add_argument("--namespace", default="podium-cluster-test")
    parser.add_argument(
        "--set", action="append", default=[], help="as helm's, e.g. imageRegistry=..."
    )
    parser.add_argument("--kafka", metavar="HOST:PORT", help="of yours, in place of the profile's")
    parser.add_argument("--only", choices=CHECKS, action="append", help="beside the install")
    parser.add_argument("--keep", action="store_true", help="leave the release")
    chosen = parser.parse_args()
    if not os.environ.get("KUBECONFIG"):
        sys.exit("KUBECONFIG names no cluster: set it, for example to ~/.kube/config")
    if missing := missing_programs():
        sys.exit(f"missing on PATH: {', '.join(missing)}")
    release = Release(chosen.namespace, chosen.set)
    if chosen.kafka:
        release.use_kafka(chosen.kafka)
    try:
        release.make_namespace()
    except CommandFailed as error:
        sys.exit(str(error))
    try:
        failed = _table(release, chosen.only or list(CHECKS), chosen.keep)
    finally:
        if not chosen.keep:
            release.remove()
    return 1 if failed else 0


def _table(release: Release, chosen: list[str], keep: bool) -> int:
    began = time.monotonic()
    failed = 0
    install, uninstall = next(iter(CHECKS)), list(CHECKS)[-1]
    for name, check in CHECKS.items():
        if name not in (install, *chosen) or (keep and name == uninstall):
            continue
        try:
            with watched_images(release.namespace):
                mark, found = "ok", check(release)
        except FAILURES as error:
            mark, found = "FAILED", str(error)
            failed += 1
        _print(f"{mark:<7}{time.monotonic() - began:>6.0f} s  {name:<48}{found}")
        if not release.notes:
            break
    return failed


def _print(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    raise SystemExit(main())
