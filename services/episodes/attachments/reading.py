from collections.abc import Iterable, Sequence
from dataclasses import replace

from episodes.attachments.checks import media_kinds_of
from episodes.attachments.store import AttachmentStore
from episodes.clients import Adapters
from podium.episodes.v1 import episode_pb2
from podium.registry.v1 import toolset_pb2
from podium_kit.attachments import Attachment, MediaKind
from podium_kit.wire.values import attachment_from_proto


def read_by(
    spec: episode_pb2.EpisodeSpec, tool: toolset_pb2.ResolvedTool, alias: str
) -> list[Attachment]:
    kinds = media_kinds_of(tool, alias)
    return [one for one in attachments_of(spec) if one.kind in kinds]


def task_for(spec: episode_pb2.EpisodeSpec, tool: toolset_pb2.ResolvedTool, alias: str) -> str:
    """Returns the task, naming the files that the model is not sent: it would invent them
    otherwise."""
    kinds = media_kinds_of(tool, alias)
    unseen = [one.placeholder for one in attachments_of(spec) if one.kind not in kinds]
    if not unseen:
        return spec.task
    return f"{spec.task}\n\nNot shown to you: {', '.join(unseen)}"


def file_tokens(files: Iterable[Attachment], tool: toolset_pb2.ResolvedTool, alias: str) -> int:
    kinds = media_kinds_of(tool, alias)
    return sum(one.estimated_tokens for one in files if one.kind in kinds)


def attachments_of(spec: episode_pb2.EpisodeSpec) -> list[Attachment]:
    return list(map(attachment_from_proto, spec.attachments))


async def measured(
    adapters: Adapters,
    store: AttachmentStore,
    tenant: str,
    owner_id: str,
    attachments: Sequence[Attachment],
) -> list[Attachment]:
    if all(one.kind is not MediaKind.PDF for one in attachments):
        return list(attachments)
    known = await store.measured(tenant, owner_id)
    for one in attachments:
        if one.kind is MediaKind.PDF and one.digest not in known:
            [file] = await store.load(tenant, owner_id, [one])
            tokens = await adapters.pdf_tokens(file.data)
            known[one.digest] = await store.measure(tenant, owner_id, one.digest, tokens)
    return [replace(one, tokens=known.get(one.digest, 0)) for one in attachments]
