"""A function in Python decides, run in the sandbox.

    def check(answer: str) -> bool | float | tuple[float, str]: ...

The answer reaches it as text and is never run, unless the function itself runs it.
"""

import json
from collections.abc import Sequence
from typing import Annotated, ClassVar

from pydantic import Field

from podium_kit.verifiers.verifier import Unjudged, Verdict, Verifier, VerifierCall

# Precedes the verdict on a line of its own, so that a check may print what it likes.
MARK = "podium-verdict:"
PROGRAM = """{code}

import json as _json
_verdict = check(_json.loads({answer!r}))
_score, _reason = _verdict if isinstance(_verdict, tuple) else (_verdict, "")
print("\\n{mark}" + _json.dumps([float(_score), str(_reason)]))
"""


class PythonCheck(Verifier):
    """Runs `check(answer)` in a tool of kind code, in a workspace of its own."""

    name: ClassVar[str] = "python"
    version: ClassVar[str] = "1"

    code: Annotated[str, Field(min_length=1, max_length=16_000)]
    tool: Annotated[str, Field(min_length=1)] = "code_interpreter"

    def calls(self, question: str, answer: str) -> Sequence[VerifierCall]:
        program = PROGRAM.format(code=self.code, answer=json.dumps(answer), mark=MARK)
        return (VerifierCall(self.tool, {"code": program}),)

    def judge(self, answer: str, results: Sequence[str] = ()) -> Verdict:
        lines = [line for line in results[0].splitlines() if line.startswith(MARK)]
        try:
            score, reason = json.loads(lines[-1].removeprefix(MARK))
            score = float(score)
        except (IndexError, ValueError, TypeError, RecursionError, OverflowError) as error:
            raise Unjudged("the check printed no verdict") from error
        # Also rejects not-a-number.
        if not 0 <= score <= 1:
            raise Unjudged(f"the check returned {score}; return 0 to 1")
        return Verdict(score, str(reason)[:500] or f"the check returned {score:g}")
