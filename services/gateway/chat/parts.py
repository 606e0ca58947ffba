from collections.abc import Iterable
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, Field, PrivateAttr
from pydantic_core import PydanticCustomError

from gateway.attachments.files import (
    InvalidFile,
    SentFile,
    from_url,
    from_url_or_base64,
    reject_id,
)
from gateway.http.error_responses import INVALID_PART

# Chat completions know the first and the last, responses the others.
TEXT_TYPES = {"text", "input_text", "output_text", "refusal"}
# The type of an error whose context has the code for clients.


class ImageUrl(BaseModel):
    url: str = Field(description="a data: URL")


class FileData(BaseModel):
    file_data: str | None = Field(None, description="a data: URL, or base64")
    filename: str | None = None
    file_id: str | None = Field(None, description="rejected: no files are uploaded here")


class Part(BaseModel):
    """A part of a message's content: text, an image, or a file."""

    type: str = Field(
        description="text, image_url, file; of responses: input_text, output_text, input_image,"
        " input_file; refusal"
    )
    text: str = ""
    refusal: str = ""
    image_url: ImageUrl | str | None = Field(
        None, description="an object of image_url, a data: URL of input_image"
    )
    file: FileData | None = Field(None, description="of file")
    file_data: str | None = Field(None, description="of input_file: a data: URL, or base64")
    filename: str | None = Field(None, description="of input_file")
    file_id: str | None = Field(None, description="rejected: no files are uploaded here")
    file_url: str | None = Field(None, description="rejected: nothing is fetched")
    _sent: SentFile | None = PrivateAttr(None)

    @property
    def sent(self) -> SentFile | None:
        return self._sent

    @classmethod
    def of_file(cls, sent: SentFile) -> "Part":
        part = cls(type="file")
        part._sent = sent
        return part

    def read(self) -> None:
        """Reads the file, once, and lets go of its digits. Raises InvalidFile."""
        if self._sent is not None or self.type in TEXT_TYPES:
            return
        self._sent = self._file()
        self.image_url = self.file = self.file_data = None

    def text_in_message(self) -> str:
        return self._sent.placeholder if self._sent else self.text or self.refusal

    def _file(self) -> SentFile:
        match self.type:
            case "image_url" | "input_image":
                if self.file_id and self.image_url is None:
                    raise reject_id("image")
                given = self.image_url
                return from_url(given.url if isinstance(given, ImageUrl) else given or "", "image")
            case "file" | "input_file":
                file = self.file or FileData(
                    file_data=self.file_data, filename=self.filename, file_id=self.file_id
                )
                if file.file_data is None:
                    raise (
                        reject_id("file")
                        if file.file_id
                        else InvalidFile("missing_file_data", "send the file's bytes as file_data")
                    )
                return from_url_or_base64(file.file_data, "file", file.filename or "")
        raise InvalidFile(
            "unsupported_content",
            f"parts of type {self.type[:100]} are not supported; send text, images or files",
        )


def _as_parts(given: Any) -> Any:
    return [{"type": "text", "text": given}] if isinstance(given, str) else given


def _read(part: Part) -> Part:
    try:
        part.read()
    except InvalidFile as error:
        raise unreadable(error) from error
    return part


def unreadable(error: InvalidFile) -> PydanticCustomError:
    return PydanticCustomError(INVALID_PART, "{words}", {"words": str(error), "code": error.code})


def require_texts_of(role: str, content: Iterable[Part]) -> None:
    if role != "user" and any(part.sent for part in content):
        raise unreadable(
            InvalidFile(
                "unsupported_content",
                "images and files are taken in the user's messages alone; send it in one",
            )
        )


def _texts_alone(parts: list[Part]) -> list[Part]:
    require_texts_of("tool", parts)
    return parts


def note_places(field: str, contents: Iterable[Iterable[Part]]) -> None:
    """Tells each file of the messages' contents which parameter it is in."""
    for at, content in enumerate(contents):
        for place, part in enumerate(content):
            if part.sent is not None:
                part.sent.place = f"{field}.{at}.content.{place}"


Content = Annotated[list[Annotated[Part, AfterValidator(_read)]], BeforeValidator(_as_parts)]
Texts = Annotated[Content, AfterValidator(_texts_alone)]


def named_parts(given: Any) -> Any:
    """Parts of a tool's result, those that are no text named: orchestrators read texts."""
    return [_named(part) for part in given] if isinstance(given, list) else given


def _named(part: Any) -> Any:
    if not isinstance(part, dict) or part.get("type") in (None, *TEXT_TYPES):
        return part
    source = part.get("source")
    found = {**part, **(source if isinstance(source, dict) else {})}
    texts = [found.get(name) for name in ("data", "image_url", "file_data", "url")]
    data = next((text for text in texts if isinstance(text, str)), "")
    media_type = str(found.get("media_type") or "") or data.partition(";")[0].removeprefix("data:")
    size_bytes = len(data.rpartition(",")[2]) * 3 // 4
    words = f"{str(part.get('type'))[:40]} {media_type[:60]}".strip()
    return {"type": "text", "text": f"({words}, about {size_bytes} bytes, is not shown)"}
