from dataclasses import dataclass
from textwrap import dedent

import pyseccomp  # type: ignore[import-untyped]

from podium_kit.failures import FailureKind

MIB = 1024 * 1024
DENIED = "-1 Function not implemented"
TOOL_ERROR = FailureKind.TOOL_ERROR
LIMIT = FailureKind.LIMIT_EXCEEDED
TIMEOUT = FailureKind.TIMEOUT
TOO_LARGE = FailureKind.OUTPUT_TOO_LARGE


@dataclass(frozen=True)
class Attack:
    """`failure` None means the program ends well and achieved nothing; `said` is in its output."""

    name: str
    code: str
    failure: FailureKind | None = None
    said: str = ""
    wall_time_s: float = 20.0
    stateful: bool = False


def attack(name: str, code: str, *expected: FailureKind | str, **fields: float | bool) -> Attack:
    failure = next((each for each in expected if isinstance(each, FailureKind)), None)
    said = next((each for each in expected if not isinstance(each, FailureKind)), "")
    return Attack(name, dedent(code), failure, str(said), **fields)  # type: ignore[arg-type]


def system_call(name: str, *arguments: object) -> Attack:
    number = pyseccomp.resolve_syscall(pyseccomp.system_arch(), name)
    given = ", ".join(map(repr, arguments))
    code = f"""
    import ctypes, os
    libc = ctypes.CDLL(None, use_errno=True)
    libc.syscall.restype = ctypes.c_long
    print(libc.syscall({number}, {given}), os.strerror(ctypes.get_errno()))
    """
    return attack(f"system call {name}", code, DENIED)
