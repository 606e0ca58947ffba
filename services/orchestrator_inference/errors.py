"""Errors between a request and an action."""

import os

from podium_kit.rpc.errors import (
    DeadlineExceeded,
    FailedPrecondition,
    InvalidArgument,
    NotFound,
    ResourceExhausted,
    Unavailable,
)


class EmptyTask(InvalidArgument):
    """There is nothing to do."""

    def __init__(self) -> None:
        super().__init__("task is empty; say what is to be done")


class InvalidSampling(InvalidArgument):
    """A sampling parameter is outside its range."""


class InvalidToolSchema(InvalidArgument):
    """A tool's parameters are not a JSON Schema with an object root."""

    def __init__(self, tool_name: str, why: str) -> None:
        super().__init__(f"parameters of tool {tool_name}: {why}", tool_name=tool_name)


class InvalidAnswerSchema(InvalidArgument):
    """The answer's schema is not a JSON Schema with an object root."""

    def __init__(self, why: str) -> None:
        super().__init__(f"answer_json_schema: {why}")


class DuplicateTool(InvalidArgument):
    """Two tools of one request have the same name."""

    def __init__(self, tool_name: str) -> None:
        super().__init__(f"tool {tool_name} is listed twice; names must be unique in a request")


class ModelNotFound(NotFound):
    """The engine serves no such model."""

    def __init__(self, model: str, served: list[str]) -> None:
        names = ", ".join(served) or "no model"
        super().__init__(f"no orchestrator model {model!r}; the engine serves {names}", model=model)


class VersionNotServed(Unavailable):
    """A policy version that no quorum of engines serves as its trainer wrote it."""

    def __init__(self, name: str) -> None:
        super().__init__(
            f"policy version {name} is not served; see `podium train versions`", model=name
        )


class NoPolicyStore(FailedPrecondition):
    """The service was started without a folder of versions."""

    def __init__(self) -> None:
        super().__init__(
            "no trained versions are kept here; set ORCHESTRATOR_INFERENCE_POLICY_STORE,"
            " or start `podium up` with --policy-store"
        )


class VersionNotFound(NotFound):
    """The store has no such version."""

    def __init__(self, name: str) -> None:
        super().__init__(f"there is no policy version {name}; see `podium train versions`")


class NotThePromotedVersion(FailedPrecondition):
    """Someone else has moved what users get, or it was rolled back already."""

    def __init__(self, asked: str, promoted: str) -> None:
        super().__init__(f"{asked} is not promoted: {promoted or 'no version'} is", name=asked)


class WrongVersion(Unavailable):
    """The engine answered with another version than it was asked for."""

    def __init__(self, asked: str, answered: str) -> None:
        super().__init__(f"{answered} answered where {asked} was asked; the answer is not used")


class EngineUnreachable(Unavailable):
    """The engine does not answer at its address, or it hung up; the message has the network's
    cause.
    """

    def __init__(self, host: str, cause: Exception) -> None:
        super().__init__(
            f"the model engine at {host} does not answer ({_network_cause(cause)}); start it, "
            "or correct ORCHESTRATOR_INFERENCE_ENGINE_BASE_URL",
            host=host,
        )


class EngineTimedOut(DeadlineExceeded):
    """The engine took longer than the request timeout, in seconds."""

    def __init__(self, host: str, timeout_s: float) -> None:
        super().__init__(
            f"the model engine at {host} gave no completion within {timeout_s:g} s", host=host
        )


class EngineRateLimited(ResourceExhausted):
    """The engine asks to slow down (HTTP 429)."""

    def __init__(self, host: str, retry_after_s: float | None) -> None:
        super().__init__(
            f"the model engine at {host} limits our rate; retry later",
            host=host,
            retry_after_s=retry_after_s,
        )


class EngineUnwell(Unavailable):
    """The engine answered with a fault of its own, or one that passes (HTTP 5xx, 408, 409, 425)."""

    def __init__(self, host: str, status: int, retry_after_s: float | None) -> None:
        super().__init__(
            f"the model engine at {host} answered HTTP {status}; retry later",
            host=host,
            retry_after_s=retry_after_s,
        )


class EngineRejected(FailedPrecondition):
    """The engine rejected the request (HTTP 4xx); the message is the engine's own."""

    def __init__(self, host: str, status: int, why: str) -> None:
        super().__init__(f"the model engine at {host} rejected (HTTP {status}): {why}", host=host)


class EngineCredentialsRejected(FailedPrecondition):
    """The engine rejected our key. Its own message is left out: it may quote the key."""

    def __init__(self, host: str) -> None:
        super().__init__(
            f"the model engine at {host} rejected our credentials; "
            "set ORCHESTRATOR_INFERENCE_ENGINE_API_KEY",
            host=host,
        )


class TokensNotCounted(FailedPrecondition):
    """The engine has no endpoint that counts tokens."""

    def __init__(self, host: str) -> None:
        super().__init__(
            f"the engine at {host} cannot count tokens; only vLLM counts by its own tokenizer",
            host=host,
        )


class EngineProtocolError(FailedPrecondition):
    """The answer is not what the OpenAI API promises."""

    def __init__(self, host: str, why: str) -> None:
        super().__init__(
            f"the engine at {host} does not speak the OpenAI API: {why}; "
            "correct ORCHESTRATOR_INFERENCE_ENGINE_BASE_URL",
            host=host,
        )


class ContextTooLong(FailedPrecondition):
    """The prompt does not fit the model's context, not even shortened."""

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
