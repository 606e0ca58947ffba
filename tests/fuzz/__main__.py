"""`python -m fuzz TARGET --runs N`: looks for inputs that a parser cannot take.

Coverage guides the search (atheris, which is libFuzzer for Python). A crash or a hang ends it
with status 1 and leaves its input in build/fuzz; put that into corpus/TARGET with the fix, where
`make test` tries it from then on.
"""

import argparse
import sys
from pathlib import Path
from random import Random

import atheris

OURS = ("orchestrator_inference", "podium_cli", "podium_kit", "podium_training")
with atheris.instrument_imports(include=[*OURS, "tool_adapters", "tool_registry"]):
    from fuzz.mutation import mutated
    from fuzz.targets import CORPUS, TARGETS

FOUND = Path("build/fuzz")
INPUT_BYTES_MAX = 65_536
HANG_S = 20


def main() -> None:
    """Never returns: libFuzzer ends the process."""
    parser = argparse.ArgumentParser(
        prog="fuzz", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("target", choices=sorted(TARGETS))
    parser.add_argument("--runs", type=int, default=100_000, help="inputs to try")
    parser.add_argument("--seed", type=int, default=1, help="of the search")
    options = parser.parse_args()
    target = TARGETS[options.target]
    found = FOUND / options.target
    found.mkdir(parents=True, exist_ok=True)

    def mutate(data: bytes, size_max: int, seed: int) -> bytes:
        random = Random(seed)
        if random.random() < 0.3:
            return bytes(atheris.Mutate(data, size_max))
        return mutated(data, random)[:size_max]

    flags = [f"-runs={options.runs}", f"-seed={options.seed}", f"-timeout={HANG_S}"]
    flags += [f"-max_len={INPUT_BYTES_MAX}", f"-artifact_prefix={found}/", "-rss_limit_mb=4096"]
    # What is new goes to the first folder; the kept corpus is read alone.
    atheris.Setup(
        [sys.argv[0], *flags, str(found), str(CORPUS / options.target)],
        target.try_,
        custom_mutator=mutate,
    )
    atheris.Fuzz()


if __name__ == "__main__":
    main()
