"""`python -m podium_training.experts`: serves simulated experts that episodes may ask.

    python -m podium_training.experts bundled/experts.yaml tasks.jsonl --write-tool ask_expert.yaml
    podium tools apply --shared -f ask_expert.yaml
    podium train rollout --task-file tasks.jsonl --always ask_expert --withhold 0.3

They know the answers of the tasks in the file, and give them as often as the pool says.
"""

import argparse
import socket
import sys
from pathlib import Path

import uvicorn
import yaml
from google.protobuf import json_format

from podium_kit.client.errors import UserError
from podium_training.experts.pool import InvalidPool, read_pool
from podium_training.experts.server import Knowledge, make_app
from podium_training.tasks.files import read_tasks

HOST = "127.0.0.1"


def main() -> int:
    arguments = _arguments()
    try:
        pool = read_pool(arguments.pool)
        knowledge = Knowledge(read_tasks(arguments.tasks), arguments.seed)
        listener = socket.create_server((HOST, arguments.port))
        base_url = f"http://{HOST}:{listener.getsockname()[1]}/v1"
        if arguments.write_tool is not None:
            spec = json_format.MessageToDict(pool.tool_spec(base_url))
            arguments.write_tool.write_text(yaml.safe_dump(spec, sort_keys=False))
    except (InvalidPool, UserError, OSError) as error:
        sys.stderr.write(f"{error}\n")
        return 2
    sys.stdout.write(f"{', '.join(expert.alias for expert in pool.experts)} at {base_url}\n")
    sys.stdout.flush()
    uvicorn.Server(uvicorn.Config(make_app(pool, knowledge), log_level="warning")).run([listener])
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="experts", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("pool", type=Path, help="YAML like bundled/experts.yaml")
    parser.add_argument("tasks", type=Path, help="JSONL of `podium train tasks`")
    parser.add_argument("--port", type=int, default=8011, help="on loopback; 0 takes a free one")
    parser.add_argument("--seed", type=int, default=0, help="of who is right about what")
    parser.add_argument("--write-tool", type=Path, help="YAML file to write the tool to")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
