from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from episodes.attachments.checks import AS_ALL_OTHERS, FileQuota, OwnQuota
from episodes.errors import InvalidAttachments
from podium_kit.attachments import AttachedFile, Attachment, media_type_of
from podium_kit.postgres.engine import autocommit
from podium_kit.rpc.identity import Scope, current_identity

INSERT = text(
    """
    INSERT INTO attachments (tenant, owner_id, digest, data)
    VALUES (:tenant, CAST(:owner AS uuid), :digest, :data)
    ON CONFLICT DO NOTHING
    """
)
# Of another episode or call that the caller may read. The size and the type, which its first bytes
# say, are checked: what a file may take is reckoned from what is stated of it.
COPY = text(
    """
    INSERT INTO attachments (tenant, owner_id, digest, data, tokens)
    SELECT tenant, CAST(:owner AS uuid), digest, data, tokens FROM attachments
    WHERE tenant = :tenant AND digest = :digest AND octet_length(data) = :size_bytes AND (
        :reads_all
        OR EXISTS (SELECT FROM episodes e WHERE e.id = owner_id AND e.subject = :subject)
        OR EXISTS (SELECT FROM direct_calls c WHERE c.id = owner_id AND c.subject = :subject)
    ) LIMIT 1
    ON CONFLICT DO NOTHING
    RETURNING substring(data FOR 12)
    """
)
USE = text("SELECT files, bytes FROM attachment_use WHERE tenant = :tenant")
FIND = text(
    """
    SELECT digest, data, tokens FROM attachments
    WHERE tenant = :tenant AND owner_id = CAST(:owner AS uuid) AND digest = ANY(:digests)
    """
)
MEASURED = text(
    """
    SELECT digest, tokens FROM attachments
    WHERE tenant = :tenant AND owner_id = CAST(:owner AS uuid) AND tokens IS NOT NULL
    """
)
# What was held before stays as it is: a hold is asked for again with the same worst case.
MEASURE = text(
    """
    UPDATE attachments SET tokens = COALESCE(tokens, :tokens)
    WHERE tenant = :tenant AND owner_id = CAST(:owner AS uuid) AND digest = :digest
    RETURNING tokens
    """
)


@dataclass(frozen=True)
class Files:
    """Files of a new episode or call, the bytes that came with it by digest, and the tenant's
    quota."""

    attachments: tuple[Attachment, ...] = ()
    contents: Mapping[str, bytes] = field(default_factory=dict)
    own_quota: OwnQuota = AS_ALL_OTHERS

    @property
    def distinct(self) -> list[Attachment]:
        return list({one.digest: one for one in self.attachments}.values())


NO_FILES = Files()


async def require_room(
    connection: AsyncConnection, tenant: str, files: Files, quota: FileQuota
) -> None:
    """Checks the quota before anything is stored. Raises FilesFull.

    `store_files` alone is exact about several requests at the same time.
    """
    if new := files.distinct:
        quota = quota.of_tenant(files.own_quota)
        stored = (await connection.execute(USE, {"tenant": tenant})).one_or_none() or (0, 0)
        quota.require_room(stored[0] + len(new), stored[1] + sum(one.size_bytes for one in new))


async def store_files(
    connection: AsyncConnection, tenant: str, owner_id: str, files: Files, quota: FileQuota
) -> None:
    """Stores files in the transaction that stores their owner.

    Raises FilesFull, and InvalidAttachments for bytes that neither came nor are stored where the
    caller may read them.
    """
    for attachment in files.distinct:
        values = {"tenant": tenant, "owner": owner_id, "digest": bytes.fromhex(attachment.digest)}
        data = files.contents.get(attachment.digest)
        if data is not None:
            await connection.execute(INSERT, {**values, "data": data})
            continue
        caller = current_identity()
        wanted = {
            **values,
            "size_bytes": attachment.size_bytes,
            "subject": caller.subject,
            "reads_all": caller.may(Scope.TRAJECTORIES_READ),
        }
        copied = await connection.execute(COPY, wanted)
        if media_type_of(bytes(copied.scalar() or b"")) != attachment.media_type:
            raise InvalidAttachments(
                f"{attachment.placeholder}: its bytes are not here, not any more, or not of the"
                " size and type that it states; send them"
            )
    if files.attachments:
        # The row is ours until the end of the transaction.
        quota = quota.of_tenant(files.own_quota)
        quota.require_room(*(await connection.execute(USE, {"tenant": tenant})).one())


class AttachmentStore:
    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine

    async def load(
        self, tenant: str, owner_id: str, attachments: Iterable[Attachment]
    ) -> list[AttachedFile]:
        """Returns the files of an episode or call. Raises InvalidAttachments when one is gone."""
        wanted = list(attachments)
        if not wanted:
            return []
        digests = [bytes.fromhex(one.digest) for one in wanted]
        values = {"tenant": tenant, "owner": owner_id, "digests": digests}
        async with autocommit(self._engine) as connection:
            rows = (await connection.execute(FIND, values)).all()
        found = {bytes(row.digest).hex(): (bytes(row.data), row.tokens or 0) for row in rows}
        if gone := next((one for one in wanted if one.digest not in found), None):
            raise InvalidAttachments(f"{gone.placeholder}: its bytes are not kept any more")
        return [
            AttachedFile(replace(one, tokens=tokens), data)
            for one in wanted
            for data, tokens in [found[one.digest]]
        ]

    async def measured(self, tenant: str, owner_id: str) -> dict[str, int]:
        async with autocommit(self._engine) as connection:
            rows = await connection.execute(MEASURED, {"tenant": tenant, "owner": owner_id})
        return {bytes(row.digest).hex(): row.tokens for row in rows}

    async def measure(self, tenant: str, owner_id: str, digest: str, tokens: int) -> int:
        """Stores a measurement unless there is one, and returns the stored one; 0 for a file that
        is gone."""
        values = {"tenant": tenant, "owner": owner_id, "digest": bytes.fromhex(digest)}
        async with autocommit(self._engine) as connection:
            stored = await connection.execute(MEASURE, {**values, "tokens": tokens})
            return int(stored.scalar() or 0)
