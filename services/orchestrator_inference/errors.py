import os
from collections.abc import Sequence

from podium_kit.rpc.errors import (
    DeadlineExceeded,
    FailedPrecondition,
    InvalidArgument,
    NotFound,
    ResourceExhausted,
    Unavailable,
)


class EmptyTask(InvalidArgument):
    def __init__(self) -> None:
        super().__init__("task is empty; say what is to be done")


class InvalidSampling(InvalidArgument):
    pass


class InvalidToolSchema(InvalidArgument):
    def __init__(self, tool_name: str, why: str) -> None:
        super().__init__(f"parameters of tool {tool_name}: {why}", tool_name=tool_name)


class InvalidAnswerSchema(InvalidArgument):
    def __init__(self, why: str) -> None:
        super().__init__(f"answer_json_schema: {why}")


class DuplicateTool(InvalidArgument):
    def __init__(self, tool_name: str) -> None:
        super().__init__(f"tool {tool_name} is listed twice; names must be unique in a request")


class ModelNotFound(NotFound):
    def __init__(self, model: str, served: Sequence[str]) -> None:
        names = ", ".join(served) or "no model"
        super().__init__(f"no orchestrator model {model!r}; the engine serves {names}", model=model)


class VersionNotServed(Unavailable):
    def __init__(self, name: str) -> None:
        super().__init__(
            f"policy version {name} is not served; see `podium train versions`", model=name
        )


class NoPolicyStore(FailedPrecondition):
    def __init__(self) -> None:
        super().__init__(
            "no trained versions are kept here; set ORCHESTRATOR_INFERENCE_POLICY_STORE,"
            " or start `podium up` with --policy-store"
        )


class VersionNotFound(NotFound):
    def __init__(self, name: str) -> None:
        super().__init__(f"there is no policy version {name}; see `podium train versions`")


class NotThePromotedVersion(FailedPrecondition):
    def __init__(self, asked: str, promoted: str) -> None:
        super().__init__(f"{asked} is not promoted: {promoted or 'no version'} is", name=asked)


class WrongVersion(Unavailable):
    def __init__(self, asked: str, answered: str) -> None:
        super().__init__(f"{answered} answered where {asked} was asked; the answer is not used")


class EngineUnreachable(Unavailable):
    def __init__(self, host: str, cause: Exception) -> None:
        super().__init__(
            f"the model engine at {host} does not answer ({_network_cause(cause)}); start it, "
            "or correct ORCHESTRATOR_INFERENCE_ENGINE_BASE_URL",
            host=host,
        )


class EngineTimedOut(DeadlineExceeded):
    def __init__(self, host: str, timeout_s: float) -> None:
        super().__init__(
            f"the model engine at {host} gave no completion within {timeout_s:g} s", host=host
        )


class EngineRateLimited(ResourceExhausted):
    def __init__(self, host: str, retry_after_s: float | None) -> None:
        super().__init__(
            f"the model engine at {host} limits our rate; retry later",
            host=host,
            retry_after_s=retry_after_s,
        )


class EngineUnwell(Unavailable):
    def __init__(self, host: str, status: int, retry_after_s: float | None) -> None:
        super().__init__(
            f"the model engine at {host} answered HTTP {status}; retry later",
            host=host,
            retry_after_s=retry_after_s,
        )


class EngineRejected(FailedPrecondition):
    def __init__(self, host: str, status: int, why: str) -> None:
        super().__init__(f"the model engine at {host} rejected (HTTP {status}): {why}", host=host)


class EngineCredentialsRejected(FailedPrecondition):
    def __init__(self, host: str) -> None:
        super().__init__(
            f"the model engine at {host} rejected our credentials; "
            "set ORCHESTRATOR_INFERENCE_ENGINE_API_KEY",
            host=host,
        )


class TokensNotCounted(FailedPrecondition):
    def __init__(self, host: str) -> None:
        super().__init__(
            f"the engine at {host} cannot count tokens; only vLLM counts by its own tokenizer",
            host=host,
        )


class EngineProtocolError(FailedPrecondition):
    def __init__(self, host: str, why: str) -> None:
        super().__init__(
            f"the engine at {host} does not speak the OpenAI API: {why}; "
            "correct ORCHESTRATOR_INFERENCE_ENGINE_BASE_URL",
            host=host,
        )


class ContextTooLong(FailedPrecondition):
    def __init__(self, why: str) -> None:
        super().__init__(f"the prompt does not fit the model's context: {why}")


def _network_cause(error: BaseException) -> str:
    """Returns the system's words where it has any: those of clients repeat the address."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, OSError) and cause.errno and cause.errno > 0:
            return os.strerror(cause.errno)
        cause = cause.__cause__
    return str(error) or type(error).__name__
