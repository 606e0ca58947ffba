"""`python -m demonstrator TASKS --tokenizer FOLDER`: serves known solutions as a model.

    python -m demonstrator tasks.jsonl --tokenizer FOLDER --port 8010
    podium up --openai-base-url http://127.0.0.1:8010/v1 --openai-model NAME-OF-FOLDER
    podium train rollout --task-file tasks.jsonl --size 1 --policy POLICY

It serves under the name of the tokenizer's folder, so its calls are priced as those of the
model that will learn from them.
"""

import argparse
import socket
import sys
from pathlib import Path

import uvicorn
from transformers import AutoConfig, AutoTokenizer

from demonstrator.server import make_app
from demonstrator.solutions import NoDemonstration, Solutions
from tasksets.task import InvalidTask, Task

HOST = "127.0.0.1"


def main() -> int:
    """Serves until it is stopped; exit status 2 for a fault in the arguments."""
    arguments = _arguments()
    try:
        solutions = Solutions(_tasks(arguments.tasks))
        tokenizer = AutoTokenizer.from_pretrained(arguments.tokenizer, local_files_only=True)
        config = AutoConfig.from_pretrained(arguments.tokenizer, local_files_only=True)
        listener = socket.create_server((HOST, arguments.port))
    except (InvalidTask, NoDemonstration, OSError) as error:
        sys.stderr.write(f"{error}\n")
        return 2
    name = arguments.tokenizer.resolve().name
    app = make_app(solutions, tokenizer, name, int(config.max_position_embeddings))
    sys.stdout.write(f"{name} at http://{HOST}:{listener.getsockname()[1]}/v1\n")
    sys.stdout.flush()
    uvicorn.Server(uvicorn.Config(app, log_level="warning")).run([listener])
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="demonstrator", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("tasks", type=Path, help="JSONL of `podium train tasks`")
    parser.add_argument(
        "--tokenizer", type=Path, required=True, help="folder of the model that learns"
    )
    parser.add_argument("--port", type=int, default=8010, help="on loopback; 0 takes a free one")
    return parser.parse_args()


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
