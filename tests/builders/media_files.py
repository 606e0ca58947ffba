"""Small files as people send them, and how requests name them."""

import base64
import hashlib
from io import BytesIO

from PIL import Image

from podium.common.v1 import attachment_pb2


def make_image(width: int = 64, height: int = 48, kind: str = "PNG", colour: str = "red") -> bytes:
    written = BytesIO()
    Image.new("RGB", (width, height), colour).save(written, kind)
    return written.getvalue()


def make_pdf(words: str = "Podium") -> bytes:
    """It begins and ends like a PDF file; no one here reads more of it."""
    return f"%PDF-1.7\n{words}\n%%EOF\n".encode()


def data_url(data: bytes, media_type: str = "image/png") -> str:
    return f"data:{media_type};base64,{base64.b64encode(data).decode()}"


def attached(
    placeholder: str, data: bytes, media_type: str = "image/png", name: str = ""
) -> attachment_pb2.AttachedFile:
    attachment = attachment_pb2.Attachment(
        placeholder=placeholder,
        media_type=media_type,
        digest=hashlib.sha256(data).hexdigest(),
        size_bytes=len(data),
        name=name,
    )
    return attachment_pb2.AttachedFile(attachment=attachment, data=data)
