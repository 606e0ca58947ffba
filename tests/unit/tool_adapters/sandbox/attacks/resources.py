from unit.tool_adapters.sandbox.attacks.attack import LIMIT, TIMEOUT, TOO_LARGE, TOOL_ERROR, attack

ATTACKS = (
    attack("memory of one process", "x = bytearray(1024 ** 3)", LIMIT),
    attack("memory bit by bit", "x = []\nwhile True: x.append('x' * 10_000)", LIMIT),
    attack(
        "memory of all processes together",
        """
        import os, time
        for _ in range(8):
            if os.fork() == 0:
                block = bytearray(100 * 1024 ** 2)
                time.sleep(600)
        time.sleep(600)
        """,
        LIMIT,
    ),
    attack(
        "memory shared through /dev/zero",
        "open('/dev/zero')",
        TOOL_ERROR,
        "FileNotFoundError",
    ),
    *(
        attack(
            f"a larger buffer of a Unix socket ({option})",
            f"""
            import socket
            first, second = socket.socketpair()
            first.setsockopt(socket.SOL_SOCKET, {option}, 1 << 26)
            """,
            TOOL_ERROR,
            "not implemented",
        )
        # SO_SNDBUF and SO_SNDBUFFORCE.
        for option in (7, 32)
    ),
    attack(
        "memory in the Unix sockets of all processes",
        """
        import os, socket, time
        for _ in range(12):
            if os.fork() == 0:
                break
        pairs = [socket.socketpair() for _ in range(60)]
        for each in (end for pair in pairs for end in pair):
            each.setblocking(False)
            try:
                while True:
                    each.send(bytes(16_384))
            except BlockingIOError:
                pass
        time.sleep(600)
        """,
        LIMIT,
    ),
    attack(
        "locked memory",
        """
        import ctypes, os
        block = ctypes.create_string_buffer(1 << 20)
        print(ctypes.CDLL(None).mlock(block, 1 << 20))
        """,
        "-1\n",
    ),
    *(
        attack(
            f"filling {folder}",
            f"""
            for number in range(1000):
                with open(f"{folder}/{{number}}", "wb") as file:
                    file.write(bytes(4 * 1024 ** 2))
            """,
            TOOL_ERROR,
            "No space left",
        )
        for folder in ("/workspace", "/tmp", "/dev/shm")
    ),
    attack(
        "a file larger than any may be",
        "open('big', 'wb').truncate(1 << 40)",
        TOOL_ERROR,
        "File too large",
    ),
    attack(
        "files of holes",
        """
        for number in range(20):
            open(f"hole-{number}", "wb").truncate(7 * 1024 ** 2)
        """,
        LIMIT,
    ),
    *(
        attack(
            f"files without end in {folder}",
            f"""
            import itertools
            for number in itertools.count():
                open(f"{folder}/{{number}}", "w").close()
            """,
            LIMIT,
        )
        for folder in ("/workspace", "/tmp")
    ),
    attack(
        "a bomb of zeros in an archive",
        """
        import io, zipfile
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
            with archive.open("zeros", "w", force_zip64=True) as member:
                for _ in range(100):
                    member.write(bytes(1024 ** 2))
        zipfile.ZipFile(packed).extractall(".")
        """,
        TOOL_ERROR,
        "OSError",
    ),
    attack("output without end", "while True: print('x' * 1000)", TOO_LARGE),
    attack(
        "errors without end",
        "import sys\nwhile True: print('x' * 1000, file=sys.stderr)",
        TOO_LARGE,
    ),
    attack("a single long line", "print('x' * 10_000_000)", TOO_LARGE),
    attack(
        "output that is no text",
        "import os; os.write(1, bytes(range(256)) * 4)",
        "\ufffd",
    ),
    attack(
        "output held open by others",
        """
        import os, time
        if os.fork() == 0:
            time.sleep(600)
        print("done")
        """,
        "done\n",
    ),
    attack(
        "closed output",
        "import os; os.close(1); os.close(2); print('x')",
    ),
    attack("deep recursion", "def f(): f()\nf()", TOOL_ERROR, "RecursionError"),
    attack(
        "deep recursion in C",
        "import sys; sys.setrecursionlimit(10 ** 9)\ndef f(_): sorted([1], key=f)\nf(1)",
        LIMIT,
    ),
    attack("huge integers", "x = 10 ** 10 ** 10", TIMEOUT, wall_time_s=1.0),
    attack(
        "every descriptor",
        "files = []\nwhile True: files.append(open('/dev/null'))",
        TOOL_ERROR,
        "Too many open files",
    ),
    attack(
        "pipes full of data",
        """
        import os
        count = 0
        try:
            while True:
                reading, writing = os.pipe()
                os.set_blocking(writing, False)
                os.write(writing, bytes(65536))
                count += 1
        except OSError as error:
            print(error.strerror, count < 70)
        """,
        "Too many open files True\n",
    ),
    attack(
        "queues full of data",
        """
        import socket
        count = 0
        kept = []
        try:
            while True:
                pair = socket.socketpair()
                kept.append(pair)
                pair[0].setblocking(False)
                pair[0].send(bytes(65536))
                count += 1
        except OSError as error:
            print(error.strerror, count < 70)
        """,
        "Too many open files True\n",
    ),
)
