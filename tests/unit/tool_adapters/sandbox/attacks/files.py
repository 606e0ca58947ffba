from unit.tool_adapters.sandbox.attacks.attack import TOOL_ERROR, attack

READ_ONLY = ("/x", "/dev/x", "/packages/x", "/usr/lib/x", "/proc/sys/kernel/hostname")

ATTACKS = (
    *(
        attack(f"writing to {path}", f"open({path!r}, 'w').write('x')", TOOL_ERROR, "Error: [Errno")
        for path in READ_ONLY
    ),
    attack(
        "writing to the program that watches",
        """
        import glob
        open(glob.glob("/runner/*/*/inside/supervisor.py")[0], "w")
        """,
        TOOL_ERROR,
        "Read-only file system",
    ),
    attack(
        "links and special files as results",
        """
        import os
        os.symlink("/etc/passwd", "passwd.txt")
        os.symlink("/", "root")
        os.mkfifo("pipe.txt")
        """,
        stateful=True,
    ),
    attack(
        "hard links to what is not ours",
        "import os, sys; os.link(os.path.realpath(sys.executable), 'python')",
        TOOL_ERROR,
        "cross-device",
    ),
    attack(
        "hard links to what the supervisor reads",
        """
        import os
        open("a", "w").write("x")
        for number in range(100):
            os.link("a", f".{number}")
        """,
        stateful=True,
    ),
    attack(
        "closed folders",
        """
        import os
        os.makedirs("a/b")
        open("a/b/file", "w").close()
        os.chmod("a/b", 0)
        os.chmod("a", 0)
        os.chmod(".", 0)
        """,
        stateful=True,
    ),
    attack(
        "names that are no text",
        """
        import os
        for name in (b"\\xff\\xfe", b"new\\nline", b"..evil", b"-rf"):
            open(name, "w").write("x")
        """,
        stateful=True,
    ),
    attack(
        "a deep tree",
        """
        import os
        for _ in range(300):
            os.mkdir("d")
            os.chdir("d")
        """,
        stateful=True,
    ),
    attack(
        "a path of another file among the variables",
        """
        import os
        os.symlink("/proc/1/environ", ".variables.pickle")
        """,
        stateful=True,
    ),
    attack(
        "a folder where the variables are kept",
        "import os; os.mkdir('.variables.pickle')",
        stateful=True,
    ),
)
