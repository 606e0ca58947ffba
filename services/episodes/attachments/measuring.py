"""How much a model reads of PDF files: measured once for an episode or call, from the bytes."""

from collections.abc import Sequence
from dataclasses import replace

from episodes.attachments.store import AttachmentStore
from episodes.clients import Adapters
from podium_kit.attachments import Attachment, MediaKind


async def measured(
    adapters: Adapters,
    store: AttachmentStore,
    tenant: str,
    owner_id: str,
    attachments: Sequence[Attachment],
) -> list[Attachment]:
    """The attachments with what a hold covers for them. Raises InvalidAttachments."""
    if all(one.kind is not MediaKind.PDF for one in attachments):
        return list(attachments)
    known = await store.measured(tenant, owner_id)
    for one in attachments:
        if one.kind is MediaKind.PDF and one.digest not in known:
            [file] = await store.load(tenant, owner_id, [one])
            tokens = await adapters.pdf_tokens(file.data)
            known[one.digest] = await store.measure(tenant, owner_id, one.digest, tokens)
    return [replace(one, tokens=known.get(one.digest, 0)) for one in attachments]
