from collections.abc import Sequence

from gateway.attachments.sent_file import SentFile
from gateway.models import OrderFile
from podium_kit.attachments import FILES_MAX, TOTAL_BYTES_MAX
from podium_kit.rpc.errors import InvalidArgument


class TooManyFiles(InvalidArgument):
    """More files, or larger ones together, than a request may have."""


def placed(files: Sequence[SentFile], before: Sequence[OrderFile] = ()) -> tuple[OrderFile, ...]:
    """Places the files of earlier requests, then these, which get placeholders. Raises
    TooManyFiles.
    """
    found = list(before)
    for file in files:
        file.placeholder = f"[{file.noun} {len(found) + 1}: {file.about}]"
        found.append(OrderFile(file.attached(), file.place))
    if len(found) > FILES_MAX:
        raise TooManyFiles(
            f"{len(found)} images and files are more than {FILES_MAX}, those of earlier messages"
            " included; leave some out",
            param=found[FILES_MAX].param,
        )
    size_bytes = 0
    for each in found:
        size_bytes += each.file.attachment.size_bytes
        if size_bytes > TOTAL_BYTES_MAX:
            raise TooManyFiles(
                f"the images and files are over {TOTAL_BYTES_MAX >> 20} MiB together; make them"
                " smaller, or leave some out",
                param=each.param,
            )
    return tuple(found)
