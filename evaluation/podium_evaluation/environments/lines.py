"""The protocol of environments: JSON, a line each, on the standard streams of a program.

The worker asks `{"id": 1, "session": "…", "do": "call", …}` and gets `{"id": 1, "result": {…}}`
or `{"id": 1, "error": "…"}`. Where the program needs a model, to play the user or to judge, it asks
the worker `{"ask": 1, "session": "…", "who": "user", "messages": […]}` and gets
`{"ask": 1, "text": "…"}` or `{"ask": 1, "error": "…"}`.

This file imports the standard library alone: it runs in the environment of the benchmark as well.
"""

import itertools
import json
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from queue import SimpleQueue
from typing import Any, Protocol, TextIO

# A program of another version is to be installed again.
PROTOCOL = 1
USER, JUDGE = "user", "judge"

Values = dict[str, Any]
Ask = Callable[[str, Sequence[Mapping[str, Any]]], str]


class Conversation(Protocol):
    """One play of a task. The same calls in the same order give the same results."""

    def opening(self) -> Values:
        """`history`: earlier messages with `role` and `content`; `task`: the user's newest one;
        `tools`: functions with `name`, `description` and `parameters`."""

    def call(self, name: str, arguments: Values) -> Values:
        """`content`, or `error`, which the agent reads. With `ended` the conversation is over, for
        that reason, and `content` is its last message."""

    def judge(self, answer: str) -> Values:
        """`score` from 0 to 1 and `explanation`; `answer` is the agent's last message.

        Where it asks a judge and there are several, the worker wants it once for each.
        """


class Environment(Protocol):
    def suite(self, options: Values) -> Values:
        """`tasks`, each with `id`, `question`, `task`, and, where they are known, `calls` as names
        with arguments, and `judged` where a model judges it; `key`: what comparable runs share."""

    def open(self, domain: str, task: Values, ask: Ask) -> Conversation: ...


class AskFailed(Exception):
    """The worker had no answer; the message says why."""


class Server:
    def __init__(self, environment: Environment, output: TextIO) -> None:
        self._environment = environment
        self._output = output
        self._writing = threading.Lock()
        self._conversations: dict[str, Conversation] = {}
        self._asked: dict[int, SimpleQueue[Values]] = {}
        self._numbers = itertools.count(1)
        self._ended = False

    def serve(self, lines: TextIO) -> None:
        """Answers until the worker closes the stream."""
        for line in lines:
            message = json.loads(line)
            if "ask" in message:
                self._asked.pop(message["ask"]).put(message)
            else:
                threading.Thread(target=self._answer, args=(message,)).start()
        self._ended = True
        for waiting in list(self._asked.values()):
            waiting.put({"error": "the worker has gone"})

    def _answer(self, request: Values) -> None:
        try:
            reply: Values = {"result": self._do(request)}
        except Exception as error:  # noqa: BLE001 whatever a benchmark raises is the worker's to know
            reply = {"error": f"{type(error).__name__}: {error}"[:2000]}
        self._write({"id": request["id"], **reply})

    def _do(self, request: Values) -> Values:
        session = request.get("session", "")
        match request["do"]:
            case "suite":
                return {"protocol": PROTOCOL, **self._environment.suite(request["options"])}
            case "open":

                def ask(who: str, messages: Sequence[Mapping[str, Any]]) -> str:
                    return self._ask(session, who, messages)

                opened = self._environment.open(request["domain"], request["task"], ask)
                self._conversations[session] = opened
                return {"protocol": PROTOCOL, **opened.opening()}
            case "call":
                conversation = self._conversations[session]
                return conversation.call(request["name"], request["arguments"])
            case "judge":
                return self._conversations[session].judge(request["answer"])
            case "close":
                self._conversations.pop(session, None)
                return {}
            case other:
                raise ValueError(f"the request {other!r} is unknown")

    def _ask(self, session: str, who: str, messages: Sequence[Mapping[str, Any]]) -> str:
        answer: SimpleQueue[Values] = SimpleQueue()
        number = next(self._numbers)
        self._asked[number] = answer
        if self._ended:
            raise AskFailed("the worker has gone")
        self._write({"ask": number, "session": session, "who": who, "messages": messages})
        reply = answer.get()
        if "error" in reply:
            raise AskFailed(reply["error"])
        return str(reply["text"])

    def _write(self, message: Values) -> None:
        with self._writing:
            self._output.write(f"{json.dumps(message)}\n")
            self._output.flush()


def serve(environment: Environment) -> None:
    """Serves on the standard streams; what the benchmark prints goes to the standard error."""
    output, sys.stdout = sys.stdout, sys.stderr
    Server(environment, output).serve(sys.stdin)
