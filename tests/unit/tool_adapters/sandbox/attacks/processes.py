from unit.tool_adapters.sandbox.attacks.attack import LIMIT, TIMEOUT, TOOL_ERROR, attack

ATTACKS = (
    attack(
        "fork bomb",
        """
        import os
        while True:
            try:
                os.fork()
            except BlockingIOError:
                os._exit(3)
        """,
        TOOL_ERROR,
    ),
    attack(
        "fork bomb that waits",
        """
        import os, time
        while True:
            try:
                os.fork()
            except BlockingIOError:
                time.sleep(600)
        """,
        TIMEOUT,
        wall_time_s=1.0,
    ),
    attack(
        "threads without end",
        """
        import threading, time
        started = 0
        try:
            while True:
                threading.Thread(target=time.sleep, args=(600,), daemon=True).start()
                started += 1
        except RuntimeError as error:
            print(error, started < 40)
        """,
        "can't start new thread True",
    ),
    attack(
        "children that outlive the call",
        """
        import os, time
        for _ in range(5):
            if os.fork() == 0:
                os.setsid()
                time.sleep(600)
        print("started")
        """,
        "started\n",
    ),
    attack(
        "a daemon that writes after the call",
        """
        import os, time
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                time.sleep(0.3)
                open("late.txt", "w").write("late")
                os._exit(0)
            os._exit(0)
        print("left")
        """,
        "left\n",
    ),
    attack(
        "zombies",
        """
        import os, time
        for _ in range(10):
            if os.fork() == 0:
                os._exit(0)
        time.sleep(0.3)
        print("not reaped")
        """,
        "not reaped\n",
    ),
    attack(
        "signals to every process there could be",
        """
        import os, signal
        for pid in [1, *range(3, 5000)]:
            if pid != os.getpid():
                try:
                    os.kill(pid, signal.SIGKILL)
                    print("sent to", pid)
                except (ProcessLookupError, PermissionError):
                    pass
        os.kill(-1, signal.SIGTERM)
        """,
        TOOL_ERROR,
        "sent to 1\n[stderr]",
    ),
    attack(
        "every signal to process 1",
        """
        import os, signal
        for number in signal.valid_signals():
            os.kill(1, number)
        print("still here")
        """,
        "still here\n",
    ),
    attack(
        "signals to the watching process",
        "import os, signal; os.kill(os.getppid(), signal.SIGSTOP); print('stopped it')",
        "stopped it\n",
    ),
    attack(
        "signals ignored",
        """
        import signal, time
        for number in set(signal.Signals) - {signal.SIGKILL, signal.SIGSTOP}:
            signal.signal(number, signal.SIG_IGN)
        time.sleep(600)
        """,
        TIMEOUT,
        wall_time_s=1.0,
    ),
    attack(
        "stopping itself",
        "import os, signal; os.kill(os.getpid(), signal.SIGSTOP)",
        TIMEOUT,
        wall_time_s=1.0,
    ),
    attack("sleeping", "import time; time.sleep(600)", TIMEOUT, wall_time_s=1.0),
    attack("a busy loop", "while True: pass", TIMEOUT, wall_time_s=1.0),
    attack(
        "a busy loop in C",
        "2 ** (2 ** 40 // 64) % 7 if False else sum(range(10 ** 12))",
        TIMEOUT,
        wall_time_s=1.0,
    ),
    attack(
        "a loop that catches everything",
        """
        while True:
            try:
                while True: pass
            except BaseException:
                pass
        """,
        TIMEOUT,
        wall_time_s=1.0,
    ),
    attack("the end at once", "import os; os._exit(0)", stateful=True),
    attack("an abort", "import os; os.abort()", LIMIT),
    attack("a crash in C", "import ctypes; ctypes.string_at(0)", LIMIT),
    attack(
        "a crash that leaves its memory",
        """
        import os
        if os.fork() == 0:
            os.abort()
        os.wait()
        print(os.listdir("."))
        """,
        "[]\n",
    ),
)
