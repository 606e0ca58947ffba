"""What can be wrong with the files of a request."""

from podium_kit.attachments import Attachment
from podium_kit.rpc.errors import InvalidArgument, ResourceExhausted


class InvalidAttachments(InvalidArgument):
    """The files are not what the request says, or too many."""


class UnsupportedAttachment(InvalidArgument):
    """Nobody who may be asked reads such a file."""

    def __init__(self, attachment: Attachment, index: int, who: str) -> None:
        kind = attachment.kind.value
        super().__init__(
            f"{attachment.placeholder}: {who}; leave it out, or have a tool of kind llm with a"
            f" model that states takes: [{kind}] (`podium tools list` shows tools, `podium policies"
            " explain` why one is not allowed)",
            attachment=index,
            media_type=attachment.media_type,
        )


class FilesFull(ResourceExhausted):
    """The tenant would keep more files, or more bytes of them, than it may."""

    def __init__(self, files: int, files_max: int, size_bytes: int, size_bytes_max: int) -> None:
        super().__init__(
            f"with these attachments your tenant would keep {files:,} files of at most"
            f" {files_max:,}, and {size_bytes:,} bytes of at most {size_bytes_max:,}; send fewer or"
            " smaller ones, or ask the platform's admin to forget old episodes"
            " (EPISODES_WORKER_KEEP_EPISODES_DAYS) or to allow more (`podium limits set`,"
            " or for all tenants EPISODES_FILES_PER_TENANT and EPISODES_FILE_BYTES_PER_TENANT)",
            files=files,
            files_max=files_max,
            size_bytes=size_bytes,
            size_bytes_max=size_bytes_max,
            # Nothing changes within a client's retries.
            retryable="false",
        )
