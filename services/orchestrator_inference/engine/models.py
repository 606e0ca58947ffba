import asyncio
import hashlib
import time
from collections.abc import Mapping
from dataclasses import replace
from http import HTTPStatus
from typing import Any

from orchestrator_inference.engine.client import EngineClient, EngineReply
from orchestrator_inference.engine.errors import rejection
from orchestrator_inference.errors import EngineProtocolError, ModelNotFound
from orchestrator_inference.models import EngineModel
from podium_kit.models.model_families import ModelFamiliesFile

FRESH_S = 2.0
OTHER_ENGINE = "openai-compatible"
Card = Mapping[str, Any]


class ModelCatalogue:
    def __init__(
        self,
        client: EngineClient,
        default: str,
        aliases: Mapping[str, str],
        families: ModelFamiliesFile,
    ) -> None:
        self._client = client
        self._host = client.host
        self._default = aliases.get(default, default)
        self._aliases = aliases
        self._families = families
        self._models: dict[str, EngineModel] = {}
        self._read_at = float("-inf")
        self._reading = asyncio.Lock()

    async def all(self) -> tuple[EngineModel, ...]:
        """Sorted by name, and at most a few seconds old."""
        if time.monotonic() - self._read_at > FRESH_S:
            await self.refresh()
        return tuple(self._models[name] for name in sorted(self._models))

    async def find(self, name: str) -> EngineModel:
        """The default for "". Raises ModelNotFound. A model known before is found without asking: a
        busy engine lists slowly.
        """
        model = self._known(name)
        if model is None:
            await self.refresh()
            model = self._known(name)
        if model is None:
            raise ModelNotFound(name or self._default, sorted(self._models))
        return model

    async def refresh(self, timeout_s: float | None = None) -> None:
        asked_at = time.monotonic()
        async with self._reading:
            # Anyone who waited takes what was read meanwhile.
            if self._read_at < asked_at:
                self._models = {model.name: model for model in await self._read(timeout_s)}
                self._read_at = time.monotonic()

    def _known(self, name: str) -> EngineModel | None:
        if name:
            return self._models.get(self._aliases.get(name, name))
        return next((model for model in self._models.values() if model.is_default), None)

    async def _read(self, timeout_s: float | None) -> list[EngineModel]:
        reply = await self._client.send("GET", "models", timeout_s=timeout_s)
        if reply.status == HTTPStatus.NOT_FOUND and self._default:
            # Some servers of a single model have no list.
            cards: list[Card] = [{"id": self._default}]
        elif reply.is_success:
            cards = cards_of(reply, self._host)
        else:
            raise rejection(self._host, "", reply, None)
        identity = await self._identity(cards)
        default = self._default or next((card["id"] for card in cards), "")
        models = (_model(card, default, *identity) for card in cards)
        return [
            replace(model, parallel_calls=self._parallel_calls(card, model))
            for card, model in zip(cards, models, strict=True)
        ]

    def _parallel_calls(self, card: Card, model: EngineModel) -> int:
        """Calls that a model was trained to make in one turn, by its name.

        vLLM reports as `root` from where it read a model that it serves under a name of the
        operator's.
        """
        names = {model.name, str(card.get("root") or model.name)} if model.is_vllm else {model.name}
        url = self._client.base_url
        return max(self._families.capabilities(url, name).parallel_calls for name in names)

    async def _identity(self, cards: list[Card]) -> tuple[str, bool, str]:
        known = next(iter(self._models.values()), None)
        if known is not None and {card["id"] for card in cards} == self._models.keys():
            return known.engine, known.is_vllm, known.prompt_digest
        if not any(card.get("owned_by") == "vllm" for card in cards):
            return OTHER_ENGINE, False, ""
        version = await self._from_root("/version", "version")
        template = await self._from_root("/tokenizer_info", "chat_template")
        digest = hashlib.sha256(template.encode()).hexdigest() if template else ""
        return f"vllm/{version}" if version else "vllm", True, digest

    async def _from_root(self, path: str, field: str) -> str:
        """A field of one of vLLM's own endpoints; "" where it is switched off, or another page is
        there: what passes the API on may have a root of its own.
        """
        reply = await self._client.send("GET", self._client.from_root(path))
        try:
            found = reply.json()[field] if reply.is_success else ""
        except (ValueError, LookupError, TypeError):
            return ""
        return found if isinstance(found, str) else ""


def cards_of(reply: EngineReply, host: str) -> list[Card]:
    try:
        return [card for card in reply.json()["data"] if isinstance(card["id"], str)]
    except (ValueError, KeyError, TypeError) as error:
        raise EngineProtocolError(host, "/models is not a list of models") from error


def _tokens(reported: Any) -> int:
    return reported if isinstance(reported, int) and reported > 0 else 0


def _model(card: Card, default: str, engine: str, is_vllm: bool, digest: str) -> EngineModel:
    parent = card.get("parent") or ""
    return EngineModel(
        name=card["id"],
        context_tokens=_tokens(card.get("max_model_len")) or _tokens(card.get("context_length")),
        engine=engine,
        is_vllm=is_vllm,
        prompt_digest=digest,
        is_default=card["id"] == default,
        adapts_default=bool(parent) and parent == default,
    )
