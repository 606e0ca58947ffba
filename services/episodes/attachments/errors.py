"""What can be wrong with the files of a request."""

from podium_kit.attachments import Attachment
from podium_kit.rpc.errors import InvalidArgument


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
