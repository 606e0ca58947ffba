from typing import Any

import pytest

from callers import make_identity
from episodes.attachments.checks import checked_attachments
from episodes.attachments.quota import UNLIMITED
from episodes.attachments.store import COPY, Files, store_files
from episodes.errors import InvalidAttachments
from media_files import attached, make_pdf
from podium.common.v1 import attachment_pb2
from podium_kit.rpc.identity import acting_as
from podium_kit.wire.attachment import attachment_from_proto

PLAN = attached("[PDF 1]", make_pdf(), "application/pdf")


class Rows:
    def __init__(self, *rows: Any) -> None:
        self._rows = rows

    def scalar(self) -> Any:
        return self._rows[0] if self._rows else None

    def one(self) -> Any:
        return self._rows[0]


class Keeping:
    async def execute(self, statement: Any, values: dict[str, Any]) -> Rows:
        if statement is not COPY:
            return Rows((1, len(PLAN.data)))
        found = values["digest"].hex() == PLAN.attachment.digest
        return Rows(PLAN.data[:12]) if found and values["size_bytes"] == len(PLAN.data) else Rows()


def stated(**changes: Any) -> attachment_pb2.Attachment:
    attachment = attachment_pb2.Attachment()
    attachment.CopyFrom(PLAN.attachment)
    attachment.MergeFrom(attachment_pb2.Attachment(**changes))
    return attachment


async def keep_one(attachment: attachment_pb2.Attachment) -> None:
    files = Files((attachment_from_proto(attachment),))
    with acting_as(make_identity()):
        await store_files(Keeping(), "acme", "0190", files, UNLIMITED)  # type: ignore[arg-type]


async def test_a_kept_file_is_what_the_request_states() -> None:
    await keep_one(PLAN.attachment)


@pytest.mark.parametrize("changes", [{"size_bytes": 1}, {"media_type": "image/png"}])
async def test_a_kept_file_cannot_be_misstated(changes: dict[str, Any]) -> None:
    with pytest.raises(InvalidAttachments, match="not of the size and type that it states"):
        await keep_one(stated(**changes))


def test_a_file_that_comes_twice_is_stated_alike() -> None:
    again = stated(placeholder="[PDF 2]")
    assert len(checked_attachments([PLAN.attachment, again])) == 2
    again.size_bytes = 1
    with pytest.raises(InvalidAttachments, match="state the same"):
        checked_attachments([PLAN.attachment, again])
