"""`make bench-training`: a training step beside TRL's GRPOTrainer, then what needs vLLM."""

import json
import subprocess
import sys
from dataclasses import dataclass
from functools import cache

from bench.figures import Figures, say
from bench.training.step import SHAPES


@dataclass(frozen=True)
class Settings:
    recomputed: str
    averages: str


# TRL's fastest step; its default, which recomputes layers; and its least memory, with our averages.
TRL_FAST = Settings("nothing", "float32")
TRL_DEFAULT = Settings("layers", "float32")
TRL_LEANEST = Settings("layers", "bytes")
# A run's file that says nothing; `step: {averages: bytes}`; and `recomputed: layers` besides.
OURS_DEFAULT = Settings("gates", "float32")
OURS_BYTES = Settings("gates", "bytes")
OURS_LEANEST = Settings("layers", "bytes")


@dataclass(frozen=True)
class Comparison:
    name: str
    shape: str
    trained: str
    trl: Settings
    ours: Settings
    faster: float
    smaller: float
    """At least so many times fewer processor seconds, and so many times less memory, than TRL."""


# Of a prompt of 224 tokens TRL computes 4.3 times as many, and of one of 600, as long as those of
# episodes, 5.9 times: five times fewer processor seconds are promised there.
SHORT = 3.5
COMPARISONS = (
    Comparison("shared_all_bytes", "shared", "all", TRL_FAST, OURS_BYTES, SHORT, 3.0),
    Comparison("shared_all", "shared", "all", TRL_FAST, OURS_DEFAULT, SHORT, 2.0),
    Comparison("shared_all_trl_default", "shared", "all", TRL_DEFAULT, OURS_BYTES, SHORT, 1.0),
    Comparison("shared_all_leanest", "shared", "all", TRL_LEANEST, OURS_LEANEST, 1.0, 1.0),
    Comparison("shared_adapter", "shared", "adapter", TRL_FAST, OURS_DEFAULT, SHORT, 3.0),
    Comparison("long_all_bytes", "long", "all", TRL_FAST, OURS_BYTES, 5.0, 3.0),
    Comparison("long_all", "long", "all", TRL_FAST, OURS_DEFAULT, 5.0, 2.0),
    Comparison("long_adapter", "long", "adapter", TRL_FAST, OURS_DEFAULT, 5.0, 3.0),
    Comparison("apart_all", "apart", "all", TRL_FAST, OURS_DEFAULT, 1.25, 1.0),
)


@cache
def measured(trainer: str, shape: str, trained: str, settings: Settings) -> dict[str, float]:
    """A step in a process of its own, so that its peak memory is its own."""
    arguments = [trainer, shape, trained, settings.recomputed, settings.averages]
    say(f"  {' '.join(arguments)}")
    command = [sys.executable, "-m", "bench.training.step", *arguments]
    printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    found: dict[str, float] = json.loads(printed.splitlines()[-1])
    return found


def main() -> None:
    figures = Figures("training")
    for each in COMPARISONS:
        rows, prompt, completion, _ = SHAPES[each.shape]
        say(f"{each.name}: {rows} rows of {prompt} + {completion} tokens")
        theirs = measured("trl", each.shape, each.trained, each.trl)
        ours = measured("ours", each.shape, each.trained, each.ours)
        figures.note(f"{each.name}.trl", theirs)
        figures.note(f"{each.name}.ours", ours)
        speed = theirs["seconds"] / ours["seconds"]
        figures.ratio(f"training.step_cpu_{each.name}", speed, ">=", each.faster)
        memory = theirs["peak_mb"] / ours["peak_mb"]
        figures.ratio(f"training.peak_memory_{each.name}", memory, ">=", each.smaller)
    figures.write()
    # vLLM and two models at once: in a process of its own, after the others have ended.
    subprocess.run([sys.executable, "-m", "bench.training.served"], check=True)


if __name__ == "__main__":
    main()
