"""`podium_training.imitation.mixing RUN.yaml ADAPTER --share S --number N`: publishes a mix.

Each matrix of the version is the weighted mean of two adapters' matrices: `lora.start` of the
configuration, and ADAPTER. What a policy gained by continuing from another is had in part, for less
of what it lost; useful where one comes from the other, so that their matrices mean the same.
"""

import argparse
import logging
import sys
from collections.abc import Sequence
from pathlib import Path

import torch
from transformers import PreTrainedModel

from podium_kit.policy_versions import VersionName
from podium_kit.rpc.errors import DomainError
from podium_training.grpo.config import InvalidConfig, RunConfig, read_config
from podium_training.grpo.ending import Fault
from podium_training.grpo.model.policy import load_policy
from podium_training.grpo.run import publisher_of


def mixed(config: RunConfig, adapter: Path, share: float) -> PreTrainedModel:
    """The policy that is `share` of the adapter, and the rest of `lora.start`.

    Raises InvalidConfig, also where the two are not of the same rank and layers.
    """
    if config.lora is None or config.lora.start is None:
        raise InvalidConfig("lora.start: name the folder of the adapter to mix with")
    model = load_policy(config.model, config.lora)
    other = load_policy(config.model, config.lora.model_copy(update={"start": adapter}))
    theirs = dict(other.named_parameters())
    with torch.no_grad():
        for name, weights in model.named_parameters():
            if weights.requires_grad:
                weights.mul_(1 - share).add_(share * theirs[name])
    return model


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit status 0 when the version is in the store, 2 where the reason has to be fixed first."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    given = _parser().parse_args(arguments)
    try:
        config = read_config(given.config)
        publisher = publisher_of(config)
        if publisher is None:
            raise InvalidConfig("the run has no section `publish`; name its store and run there")
        name = VersionName(publisher.run, given.number)
        if publisher.store.is_taken(str(name)):
            raise InvalidConfig(f"{name} is or was in the store; give the mix another --number")
        publisher.publish(mixed(config, given.adapter, given.share), given.number, {})
    except (DomainError, Fault) as error:
        sys.stderr.write(f"{error}\n")
        return 2
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="mixing", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("config", type=Path, help="YAML file of a run, with lora.start and publish")
    parser.add_argument("adapter", type=Path, help="folder of the other adapter")
    parser.add_argument("--share", type=_share, required=True, help="of the other, between 0 and 1")
    parser.add_argument("--number", type=_number, required=True, help="of the version")
    return parser


def _share(text: str) -> float:
    share = float(text)
    if not 0 < share < 1:
        raise argparse.ArgumentTypeError(f"{text} is not between 0 and 1")
    return share


def _number(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} is not above 0")
    return number


if __name__ == "__main__":
    sys.exit(main())
