"""Errors of requests about corpora."""

from podium_kit.rpc.errors import InvalidArgument, NotFound, ResourceExhausted


class CorpusNotFound(NotFound):
    """No corpus of that name for this caller."""

    def __init__(self, name: str) -> None:
        super().__init__(f"there is no corpus {name!r}; put documents into it first", corpus=name)


class InvalidCorpusName(InvalidArgument):
    """The name cannot be one."""

    def __init__(self, name: str) -> None:
        super().__init__(
            f"{name!r} is no corpus name; use lower-case letters, digits, '_' and '-', at most 64"
        )


class InvalidDocument(InvalidArgument):
    """A document cannot be stored as it is."""

    def __init__(self, document_id: str, reason: str) -> None:
        super().__init__(f"document {document_id!r} {reason}", document=document_id)


class InvalidSearch(InvalidArgument):
    """A search that can find nothing."""


class BudgetExhausted(ResourceExhausted):
    """The tenant's budgets do not cover the vectors; nothing was spent."""

    def __init__(self, corpus: str, message: str) -> None:
        super().__init__(f"the vectors of corpus {corpus!r} are not paid for: {message}")


class CorpusFull(ResourceExhausted):
    """A corpus, or a tenant's number of corpora, is at its limit."""
