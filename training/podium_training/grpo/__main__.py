"""`python -m podium_training.grpo CONFIG.yaml`: trains until its steps or the stream end.

With --replay it trains nothing: it computes a checkpoint again and compares.
"""

import argparse
import logging
import os
import sys
from pathlib import Path

from podium_kit import telemetry
from podium_kit.stream import BrokerUnavailable
from podium_training.grpo.config import RunConfig, read_config
from podium_training.grpo.ending import LASTING, PASSING, STREAM_ENDED, Fault

NEWEST = 0


def main() -> int:
    """Exit status 0 when all steps are done, else one of ending.py.

    Of a replay: 0 when it gave the same bits, 1 when it gave others, 2 when it cannot be done.
    """
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    logging.getLogger("kafka").setLevel(logging.WARNING)
    arguments = _parser().parse_args()
    passing = PASSING if arguments.replay is None else LASTING
    try:
        config = read_config(arguments.config)
        if arguments.replay is None:
            return _train(config, arguments.skip_lost)
        return _replay(config, arguments.replay)
    # Those of torch among them: another process of the run is gone, memory is used up.
    except (RuntimeError, BrokerUnavailable) as error:
        sys.stderr.write(f"{error}\n")
        return LASTING if isinstance(error, Fault) else passing


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="grpo", description=__doc__)
    parser.add_argument("config", type=Path, help="YAML file; grpo/config.py names what it may say")
    parser.add_argument(
        "--skip-lost",
        action="store_true",
        help="continue at the log's start where retention removed unread records, or the"
        " topic was emptied",
    )
    parser.add_argument(
        "--replay",
        type=int,
        nargs="?",
        const=NEWEST,
        metavar="STEP",
        help="compute a step's checkpoint (the newest: no STEP) again from the one before it and"
        " the log, and compare bit for bit; the run stays as it is",
    )
    return parser


def _train(config: RunConfig, skip_lost: bool) -> int:
    # Parsed before torch is imported: a fault in the file is reported at once.
    from podium_training.grpo.run import train  # noqa: PLC0415

    shutdown = None
    # The others of a pod have nothing to add, and the same port.
    if config.telemetry and os.environ.get("RANK", "0") == "0":
        shutdown = telemetry.configure("training", config.telemetry)
    try:
        return 0 if train(config, skip_lost=skip_lost) >= config.steps else STREAM_ENDED
    finally:
        if shutdown:
            shutdown()


def _replay(config: RunConfig, step: int) -> int:
    from podium_training.grpo.replay import replay  # noqa: PLC0415

    found = replay(config, step or None)
    sys.stdout.write(f"{found}\n")
    return 1 if found.differences else 0


if __name__ == "__main__":
    sys.exit(main())
