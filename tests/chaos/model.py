"""`python -m chaos.model`: the scripted model server, with a log of everything it would bill.

What an episode does is a script that its task names; then it answers. A request with a key is
billed once, however often it is repeated, as providers with idempotency keys do; the id of its
reply follows from the key.
"""

import argparse
import hashlib
import json
import re
import uuid
from collections.abc import Mapping
from contextvars import ContextVar
from pathlib import Path
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from chaos.scripts import poisoned, steps_of
from openai_server import OpenAiServer, Reply

MODEL = "scripted-model"
ANSWER = "it is done"
DELAY_S = 0.2
POISON = re.compile(r"poison: (\S+)")
_key: ContextVar[str] = ContextVar("key")


class BillingModel(OpenAiServer):
    """Writes a line for each reply before it is sent: id, key, and the tokens it reports."""

    def __init__(self, log: Path, port: int) -> None:
        super().__init__(models=[MODEL], delay_s=DELAY_S, port=port)
        self._log = log.open("a", buffering=1)

    async def _answer(self, request: Request, body: Mapping[str, Any]) -> Response:
        _key.set(request.headers.get("x-request-id", ""))
        return await super()._answer(request, body)

    def _reply(self, body: Mapping[str, Any], request_id: str) -> Reply:
        text = " ".join(str(message.get("content")) for message in body["messages"])
        if found := POISON.search(text):
            return poisoned(found[1])
        # Only the orchestrator is sent a key; experts are asked for prose.
        return Reply(_action(text, request_id)) if request_id else Reply(ANSWER)

    def _completion(self, body: Mapping[str, Any], reply: Reply) -> dict[str, Any]:
        key = _key.get("")
        completion = super()._completion(body, reply)
        digest = hashlib.sha256(key.encode()).hexdigest()[:24] if key else uuid.uuid4().hex
        completion["id"] = f"chatcmpl-{digest}"
        line = {"id": completion["id"], "key": key, **completion["usage"]}
        self._log.write(json.dumps(line) + "\n")
        return completion


def _action(text: str, request_id: str) -> str:
    steps = steps_of(text)
    turn = int(request_id.split("/")[1])
    return json.dumps(steps[turn - 1] if turn <= len(steps) else {"answer": ANSWER})


def main() -> None:
    parser = argparse.ArgumentParser(prog="chaos.model", description=__doc__)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--log", type=Path, required=True)
    given = parser.parse_args()
    BillingModel(given.log, given.port).serve_forever()


if __name__ == "__main__":
    main()
