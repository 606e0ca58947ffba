from dataclasses import replace

from podium.common.v1 import attachment_pb2 as pb
from podium_kit.attachments import AttachedFile, Attachment, MediaKind

KIND_TO_WIRE = {kind: pb.MediaKind.Value(f"MEDIA_KIND_{kind.name}") for kind in MediaKind}
KIND_FROM_WIRE: dict[int, MediaKind] = {number: kind for kind, number in KIND_TO_WIRE.items()}


def attachment_to_proto(attachment: Attachment) -> pb.Attachment:
    return pb.Attachment(
        placeholder=attachment.placeholder,
        media_type=attachment.media_type,
        digest=attachment.digest,
        size_bytes=attachment.size_bytes,
        name=attachment.name,
    )


def attachment_from_proto(message: pb.Attachment) -> Attachment:
    return Attachment(
        message.placeholder, message.media_type, message.digest, message.size_bytes, message.name
    )


def file_to_proto(file: AttachedFile) -> pb.AttachedFile:
    attachment = attachment_to_proto(file.attachment)
    return pb.AttachedFile(attachment=attachment, data=file.data, tokens=file.attachment.tokens)


def file_from_proto(message: pb.AttachedFile) -> AttachedFile:
    attachment = replace(attachment_from_proto(message.attachment), tokens=message.tokens)
    return AttachedFile(attachment, message.data)
