from unit.tool_adapters.sandbox.attacks.attack import TOOL_ERROR, attack, system_call

NEW_USER, NEW_NAMESPACE = 0x1000_0000, 0x0002_0000

ATTACKS = (
    system_call("ptrace", 16, 1, 0, 0),
    system_call("process_vm_readv", 1, 0, 0, 0, 0, 0),
    system_call("process_vm_writev", 1, 0, 0, 0, 0, 0),
    system_call("pidfd_getfd", 3, 0, 0),
    system_call("kcmp", 1, 1, 0, 0, 0),
    system_call("mount", b"none", b"/tmp", b"tmpfs", 0, None),
    system_call("umount2", b"/proc/sys", 2),
    system_call("open_tree", -100, b"/", 1),
    system_call("fsopen", b"tmpfs", 0),
    system_call("pivot_root", b"/tmp", b"/tmp"),
    system_call("chroot", b"/tmp"),
    system_call("unshare", NEW_USER),
    system_call("setns", 3, 0),
    system_call("bpf", 0, 0, 0),
    system_call("perf_event_open", 0, 0, -1, -1, 0),
    system_call("userfaultfd", 0),
    system_call("io_uring_setup", 8, 0),
    system_call("keyctl", 0, -3, 0),
    system_call("add_key", b"user", b"x", b"y", 1, -3),
    system_call("memfd_create", b"x", 0),
    system_call("memfd_secret", 0),
    system_call("shmget", 0, 1 << 30, 0o1600),
    system_call("mq_open", b"/x", 0o102, 0o600, 0),
    system_call("name_to_handle_at", -100, b"/", 0, 0, 0),
    system_call("open_by_handle_at", -100, 0, 0),
    system_call("init_module", 0, 0, b""),
    system_call("finit_module", 3, b"", 0),
    system_call("kexec_load", 0, 0, 0, 0),
    system_call("reboot", 0xFEE1DEAD, 672274793, 0, 0),
    system_call("sethostname", b"x", 1),
    system_call("settimeofday", 0, 0),
    system_call("syslog", 3, 0, 0),
    system_call("clone", NEW_USER | NEW_NAMESPACE | 17, 0, 0, 0, 0),
    system_call("clone3", 0, 0),
    system_call("seccomp", 1, 0, 0),
    system_call("setuid", 0),
    system_call("capset", 0, 0),
    attack(
        "calls of the 32-bit kernel interface",
        """
        import ctypes, mmap
        # mov eax, 20 (getpid); int 0x80; ret
        machine_code = b"\\xb8\\x14\\x00\\x00\\x00\\xcd\\x80\\xc3"
        memory = mmap.mmap(-1, 4096, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, 7)
        memory.write(machine_code)
        address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
        print("answered", ctypes.CFUNCTYPE(ctypes.c_int)(address)())
        """,
        TOOL_ERROR.__class__.LIMIT_EXCEEDED,
    ),
    attack(
        "commands put into a terminal",
        "import fcntl; fcntl.ioctl(0, 0x5412, b'x')",
        TOOL_ERROR,
        "not implemented",
    ),
    attack(
        "shared memory without a file",
        "import mmap; mmap.mmap(-1, 1 << 20)",
        TOOL_ERROR,
        "not implemented",
    ),
    attack(
        "capabilities",
        """
        lines = open("/proc/self/status").read().splitlines()
        wanted = ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")
        print({line.split()[1] for line in lines if line.startswith(wanted)})
        print([line.split()[1] for line in lines if line.startswith(("NoNewPrivs", "Seccomp:"))])
        """,
        "{'0000000000000000'}\n['1', '2']\n",
    ),
    attack(
        "a program that runs as its owner",
        """
        import os, shutil, stat, subprocess, sys
        shutil.copy(os.path.realpath(sys.executable), "python")
        try:
            os.chmod("python", 0o6755)
        except OSError as error:
            print(error)
        print(subprocess.run(["./python", "-I", "-S", "-c", "import os; print(os.geteuid() == 0)"],
                             capture_output=True, text=True).stdout, os.geteuid() == 0)
        """,
        "False",
    ),
    attack(
        "orders to the kernel",
        """
        import os
        settings = os.walk("/proc/sys")
        paths = [os.path.join(folder, name) for folder, _, names in settings for name in names]
        paths += ["/proc/sysrq-trigger", "/proc/timer_list", "/proc/kcore", "/proc/keys"]
        print(len(paths) > 100, [path for path in paths if os.access(path, os.W_OK)])
        """,
        "True []\n",
    ),
    attack(
        "the kernel's memory and log",
        """
        for path in ("/proc/kcore", "/proc/kmsg", "/proc/kallsyms", "/dev/mem", "/dev/kmsg"):
            try:
                data = open(path, "rb").read(4096)
                print(path, "zeros" if not data.strip(b"0 \\n") else data[:60].split()[0])
            except OSError:
                print(path, "closed")
        """,
        "/dev/mem closed\n/dev/kmsg closed\n",
    ),
    attack(
        "devices",
        "import os; print(sorted(os.listdir('/dev')), os.path.exists('/sys'))",
        "['null', 'random', 'shm', 'urandom'] False\n",
    ),
    attack(
        "a new device",
        "import os, stat; os.mknod('disk', 0o600 | stat.S_IFBLK, os.makedev(8, 0))",
        TOOL_ERROR,
        "Operation not permitted",
    ),
    attack(
        "higher limits",
        "import resource; resource.setrlimit(resource.RLIMIT_NPROC, (10_000, 10_000))",
        TOOL_ERROR,
        "ValueError",
    ),
    attack("higher priority", "import os; os.nice(-10)", TOOL_ERROR, "Error"),
)
