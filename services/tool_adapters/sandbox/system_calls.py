"""The system calls code in the sandbox may make; every other one answers "not implemented".

A list of what is allowed, because a list of what is dangerous is never complete: the kernel
gains calls. "Not implemented" (ENOSYS) rather than "not permitted", because the C library
then falls back to an older call, for example from clone3, whose flags no filter can read,
to clone. Left out on purpose, each with a way to spend or reach what is not ours to give:

* ptrace, process_vm_readv, process_vm_writev, pidfd_getfd, kcmp: into other processes;
* mount, umount2, move_mount, fsopen, pivot_root, chroot, unshare, setns: new worlds;
* bpf, perf_event_open, userfaultfd, io_uring_*, keyctl, add_key, request_key: large
  surfaces of the kernel, the source of most escapes of the last years;
* memfd_create, memfd_secret, shmget, msgget, semget, mq_open: memory that no limit counts;
* socket, but for the Unix family: there is no network to speak to;
* init_module, kexec_load, reboot, swapon, settimeofday, quotactl, syslog, acct: the machine.
"""

import errno
import socket
from functools import cache
from tempfile import TemporaryFile
from typing import Any

FILES = """
    access chdir chmod chown close close_range copy_file_range creat dup dup2 dup3 faccessat
    faccessat2 fadvise64 fallocate fchdir fchmod fchmodat fchmodat2 fchown fchownat fcntl
    fdatasync flock fstat fstatfs fsync ftruncate getcwd getdents getdents64 lchown link linkat
    lseek lstat mkdir mkdirat mknod mknodat newfstatat open openat openat2 pread64 preadv preadv2
    pwrite64 pwritev pwritev2 read readahead readlink readlinkat readv rename renameat renameat2
    rmdir sendfile splice stat statfs statx symlink symlinkat sync_file_range tee truncate umask
    unlink unlinkat utime utimensat utimes vmsplice write writev getxattr lgetxattr fgetxattr
    listxattr llistxattr flistxattr
"""
MEMORY = """
    brk madvise membarrier mincore mlock mprotect mremap msync munlock munmap
"""
PROCESSES = """
    arch_prctl capget execve exit exit_group fork futex get_robust_list get_thread_area getcpu
    getegid geteuid getgid getgroups getpgid getpgrp getpid getppid getpriority getresgid
    getresuid getrlimit getrusage getsid gettid getuid kill pause pidfd_open pidfd_send_signal
    prlimit64 restart_syscall rseq sched_get_priority_max sched_get_priority_min
    sched_getaffinity sched_getparam sched_getscheduler sched_yield set_robust_list
    set_thread_area set_tid_address setpgid setpriority setrlimit setsid sysinfo tgkill times
    tkill uname vfork wait4 waitid
"""
SIGNALS = """
    rt_sigaction rt_sigpending rt_sigprocmask rt_sigqueueinfo rt_sigreturn rt_sigsuspend
    rt_sigtimedwait rt_tgsigqueueinfo sigaltstack signalfd signalfd4
"""
TIME = """
    alarm clock_getres clock_gettime clock_nanosleep getitimer gettimeofday nanosleep setitimer
    time timer_create timer_delete timer_getoverrun timer_gettime timer_settime timerfd_create
    timerfd_gettime timerfd_settime
"""
WAITING = """
    epoll_create epoll_create1 epoll_ctl epoll_pwait epoll_pwait2 epoll_wait eventfd eventfd2
    pipe pipe2 poll ppoll pselect6 select inotify_add_watch inotify_init inotify_init1
    inotify_rm_watch getrandom
"""
# Between processes of one sandbox; `socket` itself is below.
UNIX_SOCKETS = """
    accept accept4 bind connect getpeername getsockname getsockopt listen recvfrom recvmmsg
    recvmsg sendmmsg sendmsg sendto shutdown socketpair
"""
# Not SO_SNDBUF: what waits in a socket is memory of the kernel, which no limit counts.
SOCKET_OPTIONS = (
    *(socket.SO_REUSEADDR, socket.SO_REUSEPORT, socket.SO_KEEPALIVE, socket.SO_LINGER),
    *(socket.SO_PASSCRED, socket.SO_RCVTIMEO, socket.SO_SNDTIMEO),
)
CLONE_NAMESPACES = 0x7E02_0000  # every CLONE_NEW* flag that clone takes (clone(2))
MAP_TYPE, MAP_PRIVATE, MAP_ANONYMOUS = 0x0F, 0x02, 0x20
# Terminals are asked what they are, and descriptors how much is to be read; nothing more.
IOCTLS = (0x5401, 0x5413, 0x541B, 0x5421, 0x5450, 0x5451)
# Death signal, dumpable, name, capability bound, no_new_privs, huge pages, name of a mapping.
PRCTLS = (1, 2, 3, 4, 15, 16, 23, 38, 39, 41, 42, 0x5356_4D41)


@cache
def filter_program() -> bytes:
    """The filter as a classic BPF program (seccomp(2)) for the native architecture alone.

    Raises RuntimeError on a machine without libseccomp.
    """
    import pyseccomp  # type: ignore[import-untyped]  # noqa: PLC0415 (looks for libseccomp)

    program = pyseccomp.SyscallFilter(pyseccomp.ERRNO(errno.ENOSYS))
    for group in (FILES, MEMORY, PROCESSES, SIGNALS, TIME, WAITING, UNIX_SOCKETS):
        for name in group.split():
            program.add_rule(pyseccomp.ALLOW, name)
    _add_conditional(pyseccomp, program)
    with TemporaryFile() as file:
        program.export_bpf(file)
        file.seek(0)
        return file.read()


def _add_conditional(pyseccomp: Any, program: Any) -> None:
    def allow(name: str, argument: int, mask: int, value: int) -> None:
        condition = pyseccomp.Arg(argument, pyseccomp.MASKED_EQ, mask, value)
        program.add_rule(pyseccomp.ALLOW, name, condition)

    allow("clone", 0, CLONE_NAMESPACES, 0)
    # Shared memory without a file has no size limit; of files only.
    allow("mmap", 3, MAP_TYPE, MAP_PRIVATE)
    allow("mmap", 3, MAP_ANONYMOUS, 0)
    allow("socket", 0, 0xFFFF_FFFF, socket.AF_UNIX)
    # In words that the model understands.
    other_family = pyseccomp.Arg(0, pyseccomp.NE, socket.AF_UNIX)
    program.add_rule(pyseccomp.ERRNO(errno.EACCES), "socket", other_family)
    for option in SOCKET_OPTIONS:
        allow("setsockopt", 2, 0xFFFF_FFFF, option)
    for request in IOCTLS:
        allow("ioctl", 1, 0xFFFF_FFFF, request)
    for option in PRCTLS:
        allow("prctl", 0, 0xFFFF_FFFF, option)
