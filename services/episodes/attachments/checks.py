import hashlib
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from episodes.errors import FilesFull, InvalidAttachments, UnsupportedAttachment
from podium.common.v1 import attachment_pb2
from podium.registry.v1 import toolset_pb2
from podium_kit.attachments import TOTAL_BYTES_MAX, Attachment, MediaKind, media_type_of
from podium_kit.wire.values import KIND_FROM_WIRE, attachment_from_proto


@dataclass(frozen=True)
class FileQuota:
    """The quota of one tenant; every episode and direct call stores its own files."""

    files: int
    size_bytes: int

    def of_tenant(self, own: "OwnQuota") -> "FileQuota":
        """Returns the quota of a tenant that has one of its own, or a part of it."""
        return FileQuota(
            self.files if own.files is None else own.files,
            self.size_bytes if own.size_bytes is None else own.size_bytes,
        )

    def require_room(self, files: int, size_bytes: int) -> None:
        if files > self.files or size_bytes > self.size_bytes:
            raise FilesFull(files, self.files, size_bytes, self.size_bytes)


@dataclass(frozen=True)
class OwnQuota:
    """Limits that a platform admin set for one tenant; None: the platform's default."""

    files: int | None = None
    size_bytes: int | None = None


AS_ALL_OTHERS = OwnQuota()
# The worker's: what it starts itself brings no files.
UNLIMITED = FileQuota(sys.maxsize, sys.maxsize)


def checked_attachments(listed: Sequence[attachment_pb2.Attachment]) -> list[Attachment]:
    """Raises InvalidAttachments for contradictory or over-large statements about the files."""
    found = list(map(attachment_from_proto, listed))
    if len({one.placeholder for one in found}) < len(found):
        raise InvalidAttachments("two attachments have one placeholder; number them")
    stated = {(one.digest, one.size_bytes, one.media_type) for one in found}
    if len(stated) > len({digest for digest, _, _ in stated}):
        raise InvalidAttachments(
            "two attachments have one digest, but two sizes or media types; state the same"
        )
    if sum(one.size_bytes for one in found) > TOTAL_BYTES_MAX:
        raise InvalidAttachments(f"the attachments are over {TOTAL_BYTES_MAX >> 20} MiB together")
    return found


def checked_contents(
    attachments: Iterable[Attachment], contents: Iterable[bytes]
) -> dict[str, bytes]:
    """Returns the bytes by digest. Raises InvalidAttachments for bytes that differ from the
    statements."""
    stated = {one.digest: one for one in attachments}
    found: dict[str, bytes] = {}
    for place, data in enumerate(contents):
        digest = hashlib.sha256(data).hexdigest()
        if (attachment := stated.get(digest)) is None:
            raise InvalidAttachments(
                f"attachment_data[{place}] is of no attachment: its SHA-256 is {digest}"
            )
        if len(data) != attachment.size_bytes or media_type_of(data) != attachment.media_type:
            raise InvalidAttachments(
                f"attachment_data[{place}] has {len(data)} bytes of"
                f" {media_type_of(data) or 'another type'}, and its attachment states"
                f" {attachment.size_bytes} of {attachment.media_type}"
            )
        found[digest] = data
    return found


def require_readers(
    attachments: Sequence[Attachment], tools: Iterable[toolset_pb2.ResolvedTool]
) -> None:
    read_kinds: set[MediaKind] = set()
    for tool in tools:
        read_kinds.update(*(kinds_of(kinds) for kinds in tool.model_takes.values()))
    for index, one in enumerate(attachments):
        if one.kind not in read_kinds:
            who = "no language model that the episode may ask reads it"
            raise UnsupportedAttachment(one, index, who)


def require_read_by(
    tool: toolset_pb2.ResolvedTool, alias: str, attachments: Sequence[Attachment]
) -> None:
    for index, one in enumerate(attachments):
        if one.kind not in media_kinds_of(tool, alias):
            name = f"{tool.name}/{alias}" if alias else tool.name
            raise UnsupportedAttachment(one, index, f"{name} does not read it")


def media_kinds_of(tool: toolset_pb2.ResolvedTool, alias: str) -> frozenset[MediaKind]:
    read_kinds: Mapping[str, toolset_pb2.MediaKinds] = tool.model_takes
    return kinds_of(read_kinds[alias]) if alias in read_kinds else frozenset()


def kinds_of(kinds: toolset_pb2.MediaKinds) -> frozenset[MediaKind]:
    return frozenset(KIND_FROM_WIRE[kind] for kind in kinds.kinds if kind in KIND_FROM_WIRE)


def own_quota_from_proto(message: attachment_pb2.FileQuota) -> OwnQuota:
    return OwnQuota(
        message.files if message.HasField("files") else None,
        message.size_bytes if message.HasField("size_bytes") else None,
    )
