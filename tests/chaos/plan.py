import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from chaos import victims
from chaos.victims import PAIRS, PROCESSES, SERVICES, VICTIMS


class NotPossible(Exception):
    """This machine does not permit the fault, and why."""


class Fault(StrEnum):
    KILL = "kill"
    STALL = "stall"
    PARTITION = "partition"
    DISK_FULL = "disk-full"
    OUT_OF_MEMORY = "out-of-memory"
    CLOCK_JUMP = "clock-jump"
    STATE_LOST = "state-lost"
    ROTATION = "rotation"


@dataclass(frozen=True)
class Round:
    victim: str
    fault: Fault

    def __str__(self) -> str:
        return f"{self.victim}:{self.fault}"


ROUNDS = (
    *(Round(victim, Fault.KILL) for victim in (*PROCESSES, victims.SANDBOX)),
    *(Round(victim, Fault.STALL) for victim in PROCESSES),
    *(Round(pair.name, Fault.PARTITION) for pair in PAIRS),
    *(
        Round(victim, Fault.DISK_FULL)
        for victim in (victims.POSTGRES, victims.TEMPORAL, victims.LOGS)
    ),
    *(Round(victim, Fault.OUT_OF_MEMORY) for victim in SERVICES),
    *(Round(victim, Fault.CLOCK_JUMP) for victim in SERVICES),
    Round(victims.BROKER, Fault.STATE_LOST),
    Round(victims.SANDBOX, Fault.STATE_LOST),
    Round(victims.SIGNING_KEY, Fault.ROTATION),
    Round(victims.CERTIFICATE, Fault.ROTATION),
)
# Why a pair is left out, for every victim or for the one that is named.
REASONS: dict[Fault, dict[str, str]] = {
    Fault.KILL: {"": "it is no process"},
    Fault.STALL: {
        "": "it is no process",
        victims.SANDBOX: "a stalled adapter stalls its sandboxes",
    },
    Fault.PARTITION: {"": "its connections are parted one by one, by the names of both ends"},
    Fault.DISK_FULL: {
        "": "it keeps no files but its log and its spans, which are the victim `logs`",
        victims.BROKER: "it keeps records in memory",
        victims.MODEL_SERVER: "it is not ours",
        victims.TOOL_SERVER: "it is not ours",
        victims.SIGNING_KEY: "it is written by whoever changes keys, while nothing runs",
        victims.CERTIFICATE: "it is written before anything starts",
    },
    Fault.OUT_OF_MEMORY: {
        "": "it is no process",
        victims.SANDBOX: "each run has its own bound: tests/integration/misbehaviour",
        victims.POSTGRES: "its backends are the ones that ask for memory; killing them is `kill`",
        victims.TEMPORAL: "Go reserves what it may use at its start; the rest is `kill`",
        victims.BROKER: "it is lost with its records, which is `state-lost`",
        victims.MODEL_SERVER: "it is not ours",
        victims.TOOL_SERVER: "it is not ours",
    },
    Fault.CLOCK_JUMP: {
        "": "it is no process",
        victims.SANDBOX: "it lives for seconds, and what it measures is monotonic",
        victims.POSTGRES: "its server forks a process for each connection, and each would jump at "
        "another moment",
        victims.TEMPORAL: "a Go program reads the kernel's clock without a library to load before",
        victims.BROKER: "it stamps records, and nothing reads the stamps",
        victims.MODEL_SERVER: "it is not ours",
        victims.TOOL_SERVER: "it is not ours",
        victims.CERTIFICATE: "that its time is over is a jump of who verifies it",
        victims.SIGNING_KEY: "that its time is over is a jump of who verifies it",
    },
    Fault.STATE_LOST: {
        "": "it keeps nothing of its own: what it holds in memory is lost by `kill`",
        victims.POSTGRES: "it is the state: tests/integration/podium_operations/"
        "test_disaster_recovery.py",
        victims.TEMPORAL: "its episodes end as failed: tests/integration/episodes/test_temporal.py",
        victims.SIGNING_KEY: "it is `rotation`",
        victims.CERTIFICATE: "it is `rotation`",
    },
    Fault.ROTATION: {"": "it is neither key nor certificate"},
}


def left_out() -> dict[Round, str]:
    done = set(ROUNDS)
    return {
        one: REASONS[one.fault].get(one.victim) or REASONS[one.fault][""]
        for one in (Round(victim, fault) for fault in Fault for victim in VICTIMS)
        if one not in done
    }


class UnknownRound(ValueError):
    def __init__(self, asked: str) -> None:
        known = ", ".join(sorted(map(str, ROUNDS)))
        super().__init__(f"{asked!r} is no victim:fault; known are {known}")


def planned(seed: int, count: int | None = None, only: Sequence[str] = ()) -> list[Round]:
    """Every round once, or `count` of them; `only` narrows by victim, fault or victim:fault.

    Raises UnknownRound.
    """
    rounds = [one for one in ROUNDS if not only or any(_is(one, asked) for asked in _known(only))]
    random.Random(seed).shuffle(rounds)
    return rounds if count is None else rounds[:count]


def random_rounds(seed: int, faults: Sequence[Fault] = tuple(Fault)) -> Iterator[Round]:
    choice = random.Random(seed)
    possible = [one for one in ROUNDS if one.fault in faults]
    while True:
        yield choice.choice(possible)


def _known(only: Sequence[str]) -> Sequence[str]:
    for asked in only:
        if not any(_is(one, asked) for one in ROUNDS):
            raise UnknownRound(asked)
    return only


def _is(one: Round, asked: str) -> bool:
    return asked in (str(one), one.victim, one.fault)
