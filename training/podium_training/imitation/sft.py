"""`python -m podium_training.imitation.sft CONFIG.yaml`: fine-tunes an adapter on demonstrations.

    podium train rollout --task-file tasks.jsonl --size 1 --tools 0
    python -m podium_training.imitation.sft sft.yaml

It reads the solved episodes of a platform's stream, adds first turns of questions, trains, and
publishes a version. A run of minutes on a GPU, it keeps no checkpoints.
"""

import argparse
import logging
import sys
from functools import partial
from pathlib import Path
from random import Random

from podium_kit.client.errors import UserError
from podium_kit.policy_versions import VersionName, VersionStore
from podium_kit.rpc.errors import DomainError
from podium_kit.stream import BrokerUnavailable
from podium_training.experts.pool import InvalidPool
from podium_training.grpo.config import InvalidConfig, read_section
from podium_training.grpo.data.episodes import Limits
from podium_training.grpo.data.stream import LogCut
from podium_training.grpo.ending import Fault
from podium_training.imitation.config import SftConfig
from podium_training.imitation.offers import NothingToLearn
from podium_training.imitation.solutions import NoDemonstration

FAULTS = (
    BrokerUnavailable,
    DomainError,
    Fault,
    InvalidPool,
    LogCut,
    NothingToLearn,
    NoDemonstration,
    OSError,
    UserError,
)

log = logging.getLogger("podium_training.imitation.sft")


def main() -> int:
    """Exit status 0 when the version is in the store, 2 where the reason has to be fixed first."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    logging.getLogger("kafka").setLevel(logging.WARNING)
    parser = argparse.ArgumentParser(
        prog="sft", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("config", type=Path, help="YAML file, as imitation/config.py defines it")
    try:
        config = read_section(parser.parse_args().config, SftConfig)
        _run(config)
    except FAULTS as error:
        sys.stderr.write(f"{error}\n")
        return 2
    return 0


def _run(config: SftConfig) -> None:
    store = VersionStore(config.publish.store)
    name = VersionName(config.publish.run, config.publish.number)
    if store.is_taken(str(name)):
        raise InvalidConfig(f"publish.number: {name} is or was in the store; give it another")
    # These imports take seconds, and a fault in the file is reported at once.
    from transformers import AutoTokenizer  # noqa: PLC0415

    from podium_training.grpo.device import choose_device  # noqa: PLC0415
    from podium_training.grpo.model.policy import load_policy, prompt_digest  # noqa: PLC0415
    from podium_training.grpo.publishing import Publisher, base_digest  # noqa: PLC0415
    from podium_training.grpo.run import PRECISIONS  # noqa: PLC0415
    from podium_training.imitation.first_turns import FirstTurns  # noqa: PLC0415
    from podium_training.imitation.rows import (  # noqa: PLC0415
        renamed,
        rows_of,
        solved_episodes,
    )
    from podium_training.imitation.training import fit, trained  # noqa: PLC0415

    first_turns = FirstTurns.read(config.first_turns) if config.first_turns else None
    device = choose_device(config.device)
    random = Random(config.seed)  # noqa: S311 chance, not a secret
    model = load_policy(config.model, config.lora)
    tokenizer = AutoTokenizer.from_pretrained(config.model, local_files_only=True)
    limits = Limits(
        int(model.config.vocab_size),
        config.row_tokens_max,
        prompt_digest(config.model),
        partial(tokenizer.decode, skip_special_tokens=True, clean_up_tokenization_spaces=False),
        imitated=True,
    )
    episodes, left_out = solved_episodes(config.stream, limits)
    reasons = ", ".join(f"{count} {reason}" for reason, count in left_out.most_common())
    log.info("%s solved episodes; left out: %s", len(episodes), reasons or "none")
    rows = list(rows_of(episodes))
    if first_turns is not None:
        rows += first_turns.rows(episodes, tokenizer, random)
    rows += renamed(rows, config.renamed, tokenizer, random)
    # A question may be drawn twice; the same row again teaches nothing.
    rows = list(dict.fromkeys(rows))
    if all(row.held_back for row in rows):
        raise NothingToLearn(f"no solved episode is on {config.stream.topic}: play some")
    log.info("%s rows of %s tokens", len(rows), sum(map(len, rows)))
    _, after = fit(model.to(device), rows, config, random)
    log.info("held back: %s", after)
    # The weights that stayed as they were before they were cast.
    policy = load_policy(config.model, config.lora)
    policy.load_state_dict(trained(model), strict=False)
    precision = PRECISIONS[config.publish.precision]
    Publisher(store, name.run, base_digest(config.model), tokenizer, precision).publish(
        policy, name.number, {}
    )


if __name__ == "__main__":
    sys.exit(main())
