"""Pages of the model list, by name."""

from collections.abc import Sequence

from orchestrator_inference.models import EngineModel
from rpckit.pages import decode_page_token, encode_page_token, page_size

PAGE_DEFAULT = 50
PAGE_MAX = 500


def page_of(
    models: Sequence[EngineModel], requested: int, token: str
) -> tuple[Sequence[EngineModel], str]:
    """A page of models sorted by name, and the next page's token, "" on the last."""
    after = decode_page_token(token).get("after", "")
    rest = [model for model in models if model.name > after]
    page = rest[: page_size(requested, PAGE_DEFAULT, PAGE_MAX)]
    more = len(page) < len(rest)
    return page, encode_page_token({"after": page[-1].name}) if more else ""
