"""`make bench-training`: a training step beside TRL's GRPOTrainer, then what needs vLLM."""

import json
import subprocess
import sys

from bench.figures import Figures, say
from bench.training.step import SHAPES

# At least so many times fewer processor seconds, and so many times less memory, than TRL.
TARGETS = {
    ("shared", "all"): (5.0, 3.0),
    ("shared", "adapter"): (5.0, 3.0),
    ("apart", "all"): (1.25, 1.0),
}


def measured(trainer: str, shape: str, trained: str) -> dict[str, float]:
    """A step in a process of its own, so that its peak memory is its own."""
    say(f"  {trainer}, prompts {shape}, trained: {trained}")
    command = [sys.executable, "-m", "bench.training.step", trainer, shape, trained]
    printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    found: dict[str, float] = json.loads(printed.splitlines()[-1])
    return found


def main() -> None:
    """Both trainers, one after the other, on both shapes of batch."""
    figures = Figures("training")
    for (shape, trained), (faster, smaller) in TARGETS.items():
        rows, prompt, completion, _ = SHAPES[shape]
        say(f"{rows} rows of {prompt} + {completion} tokens")
        theirs, ours = (measured(trainer, shape, trained) for trainer in ("trl", "ours"))
        name = f"{shape}_{trained}"
        figures.note(f"{name}.trl", theirs)
        figures.note(f"{name}.ours", ours)
        speed = theirs["seconds"] / ours["seconds"]
        figures.ratio(f"training.step_cpu_{name}", speed, ">=", faster)
        memory = theirs["peak_mb"] / ours["peak_mb"]
        figures.ratio(f"training.peak_memory_{name}", memory, ">=", smaller)
    figures.write()
    # vLLM and two models at once: in a process of its own, after the others have ended.
    subprocess.run([sys.executable, "-m", "bench.training.served"], check=True)


if __name__ == "__main__":
    main()
