from unit.tool_adapters.sandbox.attacks.attack import TOOL_ERROR, attack

ATTACKS = (
    attack(
        "our environment",
        """
        import glob, os
        print(dict(os.environ))
        for path in glob.glob("/proc/*/environ") + glob.glob("/proc/*/task/*/environ"):
            try:
                print(path, open(path, "rb").read())
            except OSError as error:
                print(error)
        """,
        "Permission denied: '/proc/1/environ'",
    ),
    attack(
        "our files",
        """
        import os
        paths = ["/etc", "/home", "/root/.ssh", "/var", "/bin/sh", "/run/secrets",
                 "/usr/bin/env", "/proc/1/root/etc", "/proc/1/cwd/etc"]
        print([path for path in paths if os.path.exists(path)])
        """,
        "[]\n",
    ),
    attack(
        "a shell", "import subprocess; subprocess.run(['sh', '-c', 'id'])", TOOL_ERROR, "No such"
    ),
    attack(
        "our packages",
        """
        for name in ("grpc", "tool_adapters", "tool_adapters.sandbox", "pip", "sqlalchemy"):
            try:
                __import__(name)
                print("found", name)
            except ModuleNotFoundError:
                print("no", name)
        """,
        "no grpc\nno tool_adapters\nno tool_adapters.sandbox\nno pip\nno sqlalchemy\n",
    ),
    attack(
        "memory of the watching process",
        "open('/proc/1/mem', 'r+b')",
        TOOL_ERROR,
        "Permission denied",
    ),
    attack(
        "the map of the watching process",
        "print(open('/proc/1/maps').read())",
        TOOL_ERROR,
        "Permission denied",
    ),
    attack(
        "descriptors of the watching process",
        "import os; print(os.listdir('/proc/1/fd'))",
        TOOL_ERROR,
        "Permission denied",
    ),
    attack(
        "inherited descriptors",
        """
        import os
        links = [f"/proc/self/fd/{number}" for number in os.listdir("/proc/self/fd")]
        opened = filter(os.path.lexists, links)
        print(sorted(os.readlink(link).partition(":")[0] for link in opened))
        """,
        "['/dev/null', 'pipe', 'pipe']\n",
    ),
    attack(
        "writing to libraries through one's own memory",
        """
        import ctypes
        address = ctypes.cast(ctypes.CDLL(None).getpid, ctypes.c_void_p).value
        with open("/proc/self/mem", "r+b", buffering=0) as memory:
            memory.seek(address)
            memory.write(b"\\xb8\\x39\\x05\\x00\\x00\\xc3")
        print(ctypes.CDLL(None).getpid())
        """,
        # Its own copy of the page: the next run proves it.
        "1337\n",
    ),
    attack(
        "the machine's other programs",
        """
        import os
        seen = sorted((int(name), open(f"/proc/{name}/comm").read().strip())
                      for name in os.listdir("/proc") if name.isdigit())
        print(len(seen), seen[0][0])
        """,
        "2 1\n",
    ),
    attack(
        "what is installed on the machine",
        """
        import os, sysconfig
        libraries = {sysconfig.get_config_var("MULTIARCH"), "locale"}
        python = sysconfig.get_path("stdlib").removeprefix("/usr/lib/").split("/")[0]
        print(sorted(set(os.listdir("/usr/lib")) - libraries - {python}))
        print(os.path.exists("/usr/lib/os-release"), os.path.exists("/etc/os-release"))
        """,
        "[]\nFalse False\n",
    ),
    attack(
        "names of the machine",
        "import os, socket; print(os.uname().nodename, socket.gethostname())",
        "sandbox sandbox\n",
    ),
    attack(
        "other calls' folders",
        "import os; print(os.listdir('/workspace'), os.listdir('/tmp'), os.listdir('/dev/shm'))",
        "[] [] []\n",
    ),
)
