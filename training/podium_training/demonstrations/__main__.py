"""`python -m podium_training.demonstrations`: serves known solutions of tasks as a model.

    python -m podium_training.demonstrations tasks.jsonl --tokenizer FOLDER --port 8010
    podium up --openai-base-url http://127.0.0.1:8010/v1 --openai-model NAME-OF-FOLDER
    podium train rollout --task-file tasks.jsonl --size 1 --policy POLICY

It serves under the name of the tokenizer's folder, so its calls are priced as those of the
model that will learn from them.

With --expert TOOL and --alone EVALUATION (of the learner, on some of the tasks) it hands tasks to
that tool where the preference and the learner's strength ask for it. The model `expert` answers it.
"""

import argparse
import socket
import sys
from pathlib import Path

from podium_training.demonstrations.delegation import Delegation
from podium_training.demonstrations.solutions import NoDemonstration, Solutions
from podium_training.gate import InvalidEvaluation, read_evaluation
from podium_training.tasks.task import InvalidTask, Task

HOST = "127.0.0.1"
# As long as the expert thinks, unless told otherwise: prompts tell of every tool how long it took.
EXPERT_S = 4.0


def main() -> int:
    """Serves until it is stopped; exit status 2 for a fault in the arguments."""
    arguments = _arguments()
    try:
        tasks = _tasks(arguments.tasks)
        solutions = Solutions(tasks, _delegation(arguments, tasks))
        _serve(solutions, arguments)
    except (InvalidTask, InvalidEvaluation, NoDemonstration, OSError) as error:
        sys.stderr.write(f"{error}\n")
        return 2
    return 0


def _serve(solutions: Solutions, arguments: argparse.Namespace) -> None:
    # After the tasks were read: these imports take seconds, and a fault is reported at once.
    import uvicorn  # noqa: PLC0415
    from transformers import AutoConfig, AutoTokenizer  # noqa: PLC0415

    from podium_training.demonstrations.server import make_app  # noqa: PLC0415

    learner = arguments.tokenizer.resolve()
    tokenizer = AutoTokenizer.from_pretrained(learner, local_files_only=True)
    config = AutoConfig.from_pretrained(learner, local_files_only=True)
    context = config.max_position_embeddings
    app = make_app(solutions, tokenizer, learner.name, context, arguments.expert_seconds)
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
    parser.add_argument("--expert", default="", help="tool that some tasks are handed to")
    parser.add_argument(
        "--alone",
        type=Path,
        help="what the learner gets right (`podium train rollout --evaluation`)",
    )
    parser.add_argument(
        "--expert-seconds", type=float, default=EXPERT_S, help="how long the expert takes"
    )
    arguments = parser.parse_args()
    if bool(arguments.expert) != bool(arguments.alone):
        parser.error("--expert and --alone belong together")
    return arguments


def _delegation(arguments: argparse.Namespace, tasks: list[Task]) -> Delegation | None:
    """Raises InvalidEvaluation."""
    if not arguments.expert:
        return None
    return Delegation(arguments.expert, tasks, read_evaluation(arguments.alone))


def _tasks(path: Path) -> list[Task]:
    """The tasks of a JSONL file. Raises InvalidTask and OSError."""
    tasks = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        try:
            tasks.append(Task.from_json(line))
        except InvalidTask as error:
            raise InvalidTask(f"{path}, line {number}: {error}") from error
    return tasks


if __name__ == "__main__":
    sys.exit(main())
