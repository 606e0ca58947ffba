from unit.tool_adapters.sandbox.attacks.attack import TOOL_ERROR, attack

REPORT = (
    '{"cause": "", "status": 0, "stdout_bytes": 4, "stderr_bytes": 0, "files": [], '
    '"left_out": [], "state_bytes": 0}\\nfine'
)

ATTACKS = (
    attack(
        "a forged report on every descriptor",
        f"""
        import os
        for descriptor in range(3, 300):
            try:
                os.write(descriptor, b'{REPORT}')
            except OSError:
                pass
        raise ValueError("what really happened")
        """,
        TOOL_ERROR,
        "what really happened",
    ),
    attack(
        "a forged report on standard output",
        f"import os; os.write(1, b'{REPORT}'); raise SystemExit(3)",
        TOOL_ERROR,
        '{"cause"',
    ),
    attack(
        "a forged report through the watching process",
        "open('/proc/1/fd/1', 'w')",
        TOOL_ERROR,
        "Permission denied",
    ),
    attack(
        "the watching process's work taken over",
        """
        import gc, sys
        names = [name for name in sys.modules if "supervisor" in name or "watching" in name]
        frames = []
        frame = sys._getframe()
        while frame:
            frames.append(frame)
            frame = frame.f_back
        for each in frames:
            each.f_globals["_report"] = each.f_globals["watching"] = None
        print(names)
        """,
        "[]\n",
    ),
    attack(
        "an exit status with a meaning of ours",
        "import os; print('x' * 10); os._exit(77)",
        TOOL_ERROR.__class__.LIMIT_EXCEEDED,
    ),
    attack(
        "variables that run code when they are read",
        """
        import os
        class Evil:
            def __reduce__(self):
                return (os.system, ("touch /tmp/owned",))
        evil = Evil()
        """,
        stateful=True,
    ),
    attack(
        "variables that are no pickle",
        "import os; open('.variables.pickle', 'wb').write(b'garbage'); os._exit(0)",
        stateful=True,
    ),
    attack(
        "a bomb among the variables",
        """
        import os
        open(".variables.pickle", "wb").write(b"\\x80\\x04\\x8a\\xff" + b"\\xff" * 100)
        os._exit(0)
        """,
        stateful=True,
    ),
)
