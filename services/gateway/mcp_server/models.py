from dataclasses import dataclass
from typing import Any, Literal

from gateway.tally import Tally
from podium_kit.failures import ToolFailure
from podium_kit.money import Money

PATH = "/v1/mcp"
SideEffect = Literal["pure", "idempotent", "effectful"]


@dataclass(frozen=True)
class OfferedTool:
    name: str
    version: int
    description: str
    parameters_schema: dict[str, Any]
    side_effect: SideEffect
    price_per_call: Money | None


@dataclass(frozen=True)
class ToolOrder:
    tool: str
    arguments_json: str
    policy: str
    budget: Money | None
    labels: dict[str, str]


@dataclass(frozen=True)
class ToolFile:
    name: str
    media_type: str
    data: bytes


@dataclass(frozen=True)
class ToolResult:
    """The result of a call. A cost of None is unknown."""

    call_id: str
    content: str
    content_json: str
    files: tuple[ToolFile, ...]
    failure: ToolFailure | None
    tally: Tally
    cost: Money | None
    tool_version: int
    policy_name: str
    policy_version: int


@dataclass(frozen=True)
class ListedResource:
    """A corpus by its name, or an episode by its id; `state` is a word or two about it."""

    key: str
    title: str
    state: str


@dataclass(frozen=True)
class ResourcePage:
    """Some of them; the token of the next page is "" on the last one."""

    resources: tuple[ListedResource, ...]
    next_page_token: str
