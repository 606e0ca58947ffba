"""`python -m podium_training.imitation.demonstrator`: serves known solutions of tasks as a model.

    python -m podium_training.imitation.demonstrator tasks.jsonl --tokenizer FOLDER --port 8010
    podium up --openai-base-url http://127.0.0.1:8010/v1 --openai-model NAME-OF-FOLDER
    podium train rollout --task-file tasks.jsonl --size 1 --policy POLICY

It serves under the name of the tokenizer's folder, so its calls are priced as those of the
model that will learn from them.

With --experts POOL it hands a task to one of those experts where that promises a higher reward
under the weights and prices of its prompt. `python -m podium_training.experts` serves them.

With --mistakes .1 every tenth call is made with a garbled word first, and right after its error:
what learns from it continues after errors of its own.
"""

import argparse
import socket
import sys
from pathlib import Path

from podium_kit.client.errors import UserError
from podium_training.experts.pool import InvalidPool, read_pool
from podium_training.imitation.solutions import NoDemonstration, Solutions
from podium_training.tasks.files import read_tasks

HOST = "127.0.0.1"


def main() -> int:
    arguments = _arguments()
    try:
        experts = read_pool(arguments.experts) if arguments.experts else None
        tasks = read_tasks(arguments.tasks)
        solutions = Solutions(tasks, experts, mistakes=arguments.mistakes)
        _serve(solutions, arguments)
    except (UserError, NoDemonstration, InvalidPool, OSError) as error:
        sys.stderr.write(f"{error}\n")
        return 2
    return 0


def _serve(solutions: Solutions, arguments: argparse.Namespace) -> None:
    # After the tasks were read: these imports take seconds, and a fault is reported at once.
    import uvicorn  # noqa: PLC0415
    from transformers import AutoConfig, AutoTokenizer  # noqa: PLC0415

    from podium_training.imitation.demonstrator_server import make_app  # noqa: PLC0415

    learner = arguments.tokenizer.resolve()
    tokenizer = AutoTokenizer.from_pretrained(learner, local_files_only=True)
    config = AutoConfig.from_pretrained(learner, local_files_only=True)
    context = config.max_position_embeddings
    app = make_app(solutions, tokenizer, learner.name, context)
    listener = socket.create_server((HOST, arguments.port))
    sys.stdout.write(f"{learner.name} at http://{HOST}:{listener.getsockname()[1]}/v1\n")
    sys.stdout.flush()
    uvicorn.Server(uvicorn.Config(app, log_level="warning")).run([listener])


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="demonstrator", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("tasks", type=Path, help="JSONL of `podium train tasks`")
    parser.add_argument(
        "--tokenizer", type=Path, required=True, help="folder of the model that learns"
    )
    parser.add_argument("--port", type=int, default=8010, help="on loopback; 0 takes a free one")
    parser.add_argument("--experts", type=Path, help="YAML like bundled/experts.yaml")
    parser.add_argument(
        "--mistakes", type=float, default=0.0, help="share of calls that fail first; 0"
    )
    arguments = parser.parse_args()
    if not 0 <= arguments.mistakes <= 1:
        parser.error(f"argument --mistakes: {arguments.mistakes} is no share; give one from 0 to 1")
    return arguments


if __name__ == "__main__":
    sys.exit(main())
