"""The environment of a conversation judges it: databases, what the user was given, an own judge."""

from collections.abc import Sequence
from typing import Annotated, Any, ClassVar

from pydantic import Field

from podium_kit.verifiers.llm_judge import Judges
from podium_kit.verifiers.verifier import Unjudged, Verdict, Verifier

Name = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_-]{0,63}$")]
# A tool of kind llm, and after a slash one of its models.
Model = Annotated[str, Field(pattern=r"^[a-zA-Z0-9_-]{1,64}(/[^\s/]{1,128})?$")]


class EnvironmentCheck(Verifier):
    """Names the program, domain and task of a conversation, who plays its user and who judges.

    The program runs beside the evaluation worker, which records its verdict once the episode has
    ended: here an answer stays unjudged. An episode that its own limits end scores 0 as ever.
    """

    name: ClassVar[str] = "environment"
    version: ClassVar[str] = "1"

    environment: Name
    domain: str = ""
    task: dict[str, Any]
    user_model: Model
    judges: Judges = ()
    """Judges of assertions in words; of several, more than half decide."""
    allow_own_family: bool = False

    def judge(self, answer: str, results: Sequence[str] = ()) -> Verdict:
        raise Unjudged("the conversation's environment has not judged it")
