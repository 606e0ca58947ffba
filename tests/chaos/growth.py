from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median

from chaos.leaks import MIB, Taken

# A quarter to become warm, one for the baseline, and the last to compare with it.
MEASURES_MIN = 8
# Two segments of PostgreSQL's log.
STEP_KIB = 32 * 1024
COLUMNS = ("what", "once warm", "at the end", "most allowed", "verdict")


@dataclass(frozen=True)
class Growth:
    name: str
    baseline: float
    last: float
    limit: float

    @property
    def reason(self) -> str:
        if self.last <= self.limit:
            return ""
        return (
            f"{self.name} grew from {self.baseline:.1f} to {self.last:.1f}, "
            f"more than the {self.limit:.1f} allowed"
        )


def grown(found: Sequence[Taken]) -> list[Growth]:
    if len(found) < MEASURES_MIN:
        return []
    return [
        _flat("memory, MiB", found, lambda one: one.memory_bytes / MIB, 0.1, 64),
        _flat("processes", found, lambda one: one.processes, 0.1, 2),
        _flat("connections", found, lambda one: one.connections, 0.2, 20),
        _flat("open files", found, lambda one: one.open_files, 0.2, 20),
        # What is kept of each episode: more of it for later ones is a leak.
        _kept("disk for each episode, KiB", found, lambda one: one.disk_bytes / 1024),
        _kept("broker for each episode, KiB", found, lambda one: one.broker_bytes / 1024),
    ]


def _flat(
    name: str, found: Sequence[Taken], of: Callable[[Taken], float], share: float, more: float
) -> Growth:
    """A share of the baseline, and so much for what comes and goes."""
    baseline, last = (median(map(of, part)) for part in (_warm(found), _end(found)))
    return Growth(name, baseline, last, baseline * (1 + share) + more)


def _kept(name: str, found: Sequence[Taken], of: Callable[[Taken], float]) -> Growth:
    """Half as much again as the baseline's, and a step: databases take their disk in segments."""
    half = len(found) // 2
    warm, later = found[len(found) // 4 : half + 1], found[half:]
    baseline = _for_each_episode(warm, of)
    limit = 1.5 * max(baseline, 0.0) + STEP_KIB / _episodes(later)
    return Growth(name, baseline, _for_each_episode(later, of), limit)


def _for_each_episode(part: Sequence[Taken], of: Callable[[Taken], float]) -> float:
    return (of(part[-1]) - of(part[0])) / _episodes(part)


def _episodes(part: Sequence[Taken]) -> int:
    return max(part[-1].episodes - part[0].episodes, 1)


def _warm(found: Sequence[Taken]) -> Sequence[Taken]:
    return found[len(found) // 4 : len(found) // 2]


def _end(found: Sequence[Taken]) -> Sequence[Taken]:
    return found[-(len(found) // 4) :]


def growth_table(found: Sequence[Taken]) -> str:
    rows = [_row(one) for one in grown(found)]
    if not rows:
        return f"growth is not measured: {len(found)} measurements, {MEASURES_MIN} are needed"
    lines = [COLUMNS, ("---",) * len(COLUMNS), *rows]
    return "\n".join(f"| {' | '.join(row)} |" for row in lines)


def _row(one: Growth) -> tuple[str, ...]:
    amounts = (f"{each:.1f}" for each in (one.baseline, one.last, one.limit))
    return (one.name, *amounts, one.reason or "flat")
