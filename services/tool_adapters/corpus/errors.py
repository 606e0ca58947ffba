from podium_kit.rpc.errors import InvalidArgument, NotFound, ResourceExhausted


class CorpusNotFound(NotFound):
    def __init__(self, name: str) -> None:
        super().__init__(f"there is no corpus {name!r}; put documents into it first", corpus=name)


class InvalidCorpusName(InvalidArgument):
    def __init__(self, name: str) -> None:
        super().__init__(
            f"{name!r} is no corpus name; use lower-case letters, digits, '_' and '-', at most 64"
        )


class InvalidDocument(InvalidArgument):
    def __init__(self, document_id: str, reason: str) -> None:
        super().__init__(f"document {document_id!r} {reason}", document=document_id)


class InvalidSearch(InvalidArgument):
    pass


class CorpusFull(ResourceExhausted):
    pass
