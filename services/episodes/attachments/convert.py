"""podium.common.v1.FileQuota."""

from episodes.attachments.quota import OwnQuota
from podium.common.v1 import attachment_pb2


def own_quota_from_proto(message: attachment_pb2.FileQuota) -> OwnQuota:
    return OwnQuota(
        message.files if message.HasField("files") else None,
        message.size_bytes if message.HasField("size_bytes") else None,
    )
