import argparse
import json
import statistics
import sys
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

OUTPUT_FOLDER = Path("build/bench")


@dataclass(frozen=True)
class Ratio:
    """Ours over the floor's or the peer's, and what we aim at."""

    name: str
    value: float
    operator: str
    target: float

    def line(self) -> str:
        return f"ratio {self.name} {self.value:.4g} target {self.operator} {self.target:g}"


@dataclass
class Figures:
    area: str
    ratios: list[Ratio] = field(default_factory=list)
    details: dict[str, Any] = field(default_factory=dict)

    def note(self, name: str, value: Any) -> None:
        self.details[name] = value
        say(f"  {name}: {value}")

    def ratio(self, name: str, value: float, operator: str, target: float) -> None:
        self.ratios.append(Ratio(name, value, operator, target))

    def write(self) -> None:
        OUTPUT_FOLDER.mkdir(parents=True, exist_ok=True)
        ratios = [asdict(ratio) for ratio in self.ratios]
        text = json.dumps({"ratios": ratios, "details": self.details}, indent=2)
        (OUTPUT_FOLDER / f"{self.area}.json").write_text(text)
        sys.stdout.write("".join(f"{ratio.line()}\n" for ratio in self.ratios))


@dataclass(frozen=True)
class Load:
    concurrent: int
    per_second: float
    p50_s: float
    p99_s: float
    failed: int

    @classmethod
    def of(cls, concurrent: int, seconds: list[float], wall_s: float, failed: int) -> "Load":
        ordered = sorted(seconds)
        p99 = ordered[min(len(ordered) - 1, round(0.99 * len(ordered)))]
        rate = len(ordered) / wall_s
        return cls(concurrent, rate, statistics.median(ordered), p99, failed)

    def __str__(self) -> str:
        return (
            f"{self.per_second:.2f} episodes/s, p50 {self.p50_s:.2f} s, p99 {self.p99_s:.2f} s,"
            f" {self.failed} failed"
        )


async def measure_parts(
    area: str, description: str, parts: Mapping[str, Callable[[Figures], Awaitable[None]]]
) -> None:
    """Measures the parts that the command line names, all by default."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("parts", nargs="*", default=list(parts), help=f"any of {', '.join(parts)}")
    figures = Figures(area)
    for part in parser.parse_args().parts:
        await parts[part](figures)
    figures.write()


def say(text: str) -> None:
    """Progress, kept apart from the figures on standard output."""
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()
