"""`make bench-training`: a training step beside TRL's GRPOTrainer on the same rows."""

import json
import subprocess
import sys

from bench.figures import Figures, say
from bench.training.step import SHAPES

# At least so many times fewer processor seconds, and so many times less memory, than TRL.
TARGETS = {"shared": (5.0, 3.0), "apart": (1.25, 1.0)}


def measured(trainer: str, shape: str) -> dict[str, float]:
    """A step in a process of its own, so that its peak memory is its own."""
    say(f"  {trainer}, prompts {shape}")
    command = [sys.executable, "-m", "bench.training.step", trainer, shape]
    printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    found: dict[str, float] = json.loads(printed.splitlines()[-1])
    return found


def main() -> None:
    """Both trainers, one after the other, on both shapes of batch."""
    figures = Figures("training")
    for shape, (faster, smaller) in TARGETS.items():
        rows, prompt, completion, _ = SHAPES[shape]
        say(f"{rows} rows of {prompt} + {completion} tokens")
        theirs, ours = measured("trl", shape), measured("ours", shape)
        figures.note(f"{shape}.trl", theirs)
        figures.note(f"{shape}.ours", ours)
        speed = theirs["seconds"] / ours["seconds"]
        figures.ratio(f"training.step_cpu_{shape}", speed, ">=", faster)
        memory = theirs["peak_mb"] / ours["peak_mb"]
        figures.ratio(f"training.peak_memory_{shape}", memory, ">=", smaller)
    figures.write()
    # vLLM and two models at once: in a process of its own, after the others have ended.
    subprocess.run([sys.executable, "-m", "bench.training.publishing"], check=True)


if __name__ == "__main__":
    main()
