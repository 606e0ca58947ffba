"""A shop with a counter, as an environment: `python -m conversations.shop` speaks its protocol.

The user is a model; the verdict is what was sold, or a model's. What a task names as `fault` is
what benchmarks do wrong: each process gives another result, or the function ends the program.
"""

import os
import sys
from typing import Any

from podium_evaluation.environments.lines import JUDGE, USER, Ask, Values, serve

FUNCTIONS = {
    "sell": {"item": {"type": "string"}},
    "tell_user": {"text": {"type": "string"}},
}
TASKS: list[Values] = [
    {"id": "lamp", "item": "lamp"},
    {"id": "chair", "item": "chair", "judged": True},
    {"id": "clock", "item": "clock", "fault": "another in each process"},
    {"id": "mirror", "item": "mirror", "fault": "ends the program"},
]


class Visit:
    def __init__(self, task: Values, ask: Ask) -> None:
        self._task = task
        self._ask = ask
        self._sold: list[str] = []
        self._said: list[dict[str, str]] = []

    def opening(self) -> Values:
        return {
            "history": [{"role": "system", "content": "Sell what the customer asks for."}],
            "task": self._reply("Good morning"),
            "tools": [
                {
                    "name": name,
                    "description": name,
                    "parameters": {
                        "type": "object",
                        "properties": properties,
                        "required": list(properties),
                    },
                }
                for name, properties in FUNCTIONS.items()
            ],
        }

    def call(self, name: str, arguments: Values) -> Values:
        if name == "tell_user":
            reply = self._reply(arguments["text"])
            over = {"content": arguments["text"], "ended": "user_stop"}
            return over if "STOP" in reply else {"content": reply}
        if arguments["item"] != self._task["item"]:
            return {"error": f"there is no {arguments['item']}"}
        self._sold.append(arguments["item"])
        fault = self._task.get("fault", "")
        if fault == "ends the program":
            os.write(sys.stderr.fileno(), b"the roof came down")
            os._exit(1)
        number = os.getpid() if fault else len(self._sold)
        return {"content": f"sold as number {number}"}

    def judge(self, answer: str) -> Values:
        if not self._task.get("judged"):
            right = self._sold == [self._task["item"]]
            return {"score": float(right), "explanation": f"sold {self._sold}, answered {answer}"}
        said = self._ask(JUDGE, [{"role": "user", "content": f"Is it polite? {answer}"}])
        return {"score": float("yes" in said), "explanation": said}

    def _reply(self, text: str) -> str:
        self._said.append({"role": "user", "content": text})
        scenario = {"role": "system", "content": f"You want a {self._task['item']}."}
        said = self._ask(USER, [scenario, *self._said])
        self._said.append({"role": "assistant", "content": said})
        return said


class Shop:
    def suite(self, options: dict[str, Any]) -> Values:
        if options["domain"] not in ("", "furniture"):
            raise ValueError(f"there is no domain {options['domain']}; use furniture")
        listed = [
            {
                "id": task["id"],
                "question": f"sell a {task['item']}",
                "task": task,
                "calls": [["sell", {"item": task["item"]}]],
                "judged": task.get("judged", False),
            }
            for task in TASKS
        ]
        return {"tasks": listed, "key": {"shop": "1"}}

    def open(self, domain: str, task: Values, ask: Ask) -> Visit:
        return Visit(task, ask)


if __name__ == "__main__":
    serve(Shop())
