import json
import logging
from typing import Protocol

from cachetools import LRUCache

from podium_kit.models.chat_parameters import ChatParameters
from podium_kit.models.model_families import ModelCapabilities, ModelFamiliesFile
from podium_kit.rpc.errors import DomainError, InvalidArgument
from tool_adapters.models import LlmModel

log = logging.getLogger(__name__)

MODELS_CACHED_MAX = 10_000


class LearntParameters(Protocol):
    """Parameters that replicas learnt; see store_parameters."""

    async def find(self, owner: str, model: LlmModel) -> ChatParameters | None: ...
    async def store(self, owner: str, model: LlmModel, learnt: ChatParameters) -> None: ...


class ModelParameters:
    """The form in which each model is asked: its family's, or what any replica has learnt.

    The owner is the tenant whose key is sent, or the platform: one account may be denied what
    another one is allowed. A database that is away costs a rejection, and fails no call.
    """

    def __init__(self, families: ModelFamiliesFile, learnt: LearntParameters) -> None:
        self._families = families
        self._learnt = learnt
        self._cached: LRUCache[tuple[str, str, str, str], ChatParameters | None] = LRUCache(
            MODELS_CACHED_MAX
        )

    async def find(self, owner: str, model: LlmModel) -> ChatParameters:
        key = _key(owner, model)
        # What an owner states of its model counts for more than what was learnt without it.
        if key not in self._cached and not model.capabilities:
            try:
                self._cached[key] = await self._learnt.find(owner, model)
            except DomainError as error:
                log.warning("learnt parameters are read later: %s", error.message)
        return self._cached.get(key) or self._capabilities(model).parameters(
            model.options.reasoning_effort
        )

    async def learn(
        self, owner: str, model: LlmModel, rejected: ChatParameters, learnt: ChatParameters
    ) -> ChatParameters:
        """Returns the parameters to ask with after a rejection: another replica's, or `learnt`."""
        if model.capabilities:
            self._cached[_key(owner, model)] = learnt
            return learnt
        try:
            known = await self._learnt.find(owner, model)
            if known is None or known == rejected:
                known = learnt
                await self._learnt.store(owner, model, learnt)
                log.info("%s at %s is asked with %s", model.model, model.base_url, learnt)
        except DomainError as error:
            known = learnt
            log.warning("learnt parameters are stored later: %s", error.message)
        self._cached[_key(owner, model)] = known
        return known

    def _capabilities(self, model: LlmModel) -> ModelCapabilities:
        try:
            return self._families.capabilities(model.base_url, model.model, model.capabilities)
        except InvalidArgument as error:
            # The registry rejects a family that there is not; this one was in the file once.
            log.warning("capabilities of %s are its address's: %s", model.model, error.message)
            return self._families.capabilities(model.base_url, model.model)


def _key(owner: str, model: LlmModel) -> tuple[str, str, str, str]:
    return owner, model.base_url, model.model, json.dumps(model.capabilities, sort_keys=True)
