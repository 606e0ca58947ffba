"""`python -m grpo CONFIG.yaml`: trains until its steps are done or the stream stays silent."""

import argparse
import logging
import sys
from pathlib import Path

from grpo.config import InvalidConfig, RunConfig, read_config


def main() -> int:
    """Exit status 0 when all steps are done, 3 when the stream ended before, 2 for a fault."""
    parser = argparse.ArgumentParser(prog="grpo", description=__doc__)
    parser.add_argument("config", type=Path, help="YAML file; see configs/")
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    logging.getLogger("kafka").setLevel(logging.WARNING)
    try:
        config = read_config(parser.parse_args().config)
        steps = _train(config)
    except (InvalidConfig, RuntimeError) as error:
        sys.stderr.write(f"{error}\n")
        return 2
    return 0 if steps >= config.steps else 3


def _train(config: RunConfig) -> int:
    # Parsed before torch is imported: a fault in the file is told at once.
    from grpo.run import train  # noqa: PLC0415

    return train(config)


if __name__ == "__main__":
    sys.exit(main())
