"""A network of its own, which a process moves into.

Run as a program, it tells by its exit status whether this machine permits that.
"""

import ctypes
import fcntl
import os
import socket
import struct
import subprocess
import sys
from pathlib import Path

NEW_USER, NEW_NETWORK = 0x10000000, 0x40000000
GET_FLAGS, SET_FLAGS, UP = 0x8913, 0x8914, 0x1
REQUEST = struct.Struct("16sh14x")
FIX = (
    "allow unprivileged user namespaces (sysctl user.max_user_namespaces above 0; on Ubuntu also "
    "kernel.apparmor_restrict_unprivileged_userns=0; in a container a seccomp profile that "
    "permits unshare)"
)


def enter_network() -> None:
    """Moves this process into a network that has a loopback interface alone.

    Sockets that it has already stay where they are. Only for a process with one thread. Raises
    OSError where the machine does not permit it.
    """
    try:
        _unshare(NEW_NETWORK)
    except PermissionError:
        # Who may not make a network may make a user who may.
        user, group = os.geteuid(), os.getegid()
        _unshare(NEW_USER | NEW_NETWORK)
        # Who may not set groups may map one, without being root.
        maps = {"setgroups": "deny", "uid_map": f"{user} {user} 1", "gid_map": f"{group} {group} 1"}
        for file, content in maps.items():
            Path("/proc/self", file).write_text(content)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        request = REQUEST.pack(b"lo", 0)
        _, flags = REQUEST.unpack(fcntl.ioctl(any_socket, GET_FLAGS, request))
        fcntl.ioctl(any_socket, SET_FLAGS, REQUEST.pack(b"lo", flags | UP))


def are_permitted() -> bool:
    probe = [sys.executable, "-I", "-S", __file__]
    ended = subprocess.run(probe, stderr=subprocess.DEVNULL, check=False)  # noqa: S603  this file
    return ended.returncode == 0


def _unshare(namespaces: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(namespaces) != 0:
        error = ctypes.get_errno()
        raise OSError(error, f"no network of its own: {os.strerror(error)}")


if __name__ == "__main__":
    enter_network()
