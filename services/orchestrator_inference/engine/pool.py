from collections.abc import Callable, Sequence

from orchestrator_inference.engine.engine import Engine, ModelCall
from orchestrator_inference.errors import ModelNotFound
from orchestrator_inference.models import Completion, EngineModel
from podium_kit.rpc.errors import Unavailable


class EnginePool:
    """Asks the engine that lists the model; the first engine has the default."""

    def __init__(self, main: Engine, others: Callable[[], Sequence[Engine]]) -> None:
        """`others` are asked for again at every call: engines come and go."""
        self._main = main
        self._others = others
        self._found: dict[str, Engine] = {}
        self._turn = 0

    async def model(self, name: str) -> EngineModel:
        # Where it was found beside the main engine, that one may be busy or away.
        if name in self._found and (model := await self._of_others(name)):
            return model
        try:
            return await self._main.model(name)
        except ModelNotFound:
            if model := await self._of_others(name):
                return model
            raise

    async def _of_others(self, name: str) -> EngineModel | None:
        for engine in self._in_turn():
            try:
                model = await engine.model(name)
            except (ModelNotFound, Unavailable):
                continue
            self._found[model.name] = engine
            return model
        return None

    def _in_turn(self) -> list[Engine]:
        """The others, another one first at every call: replicas of one version share its calls."""
        engines = list(self._others())
        self._turn += 1
        start = self._turn % max(1, len(engines))
        return engines[start:] + engines[:start]

    async def models(self) -> tuple[EngineModel, ...]:
        found = {model.name: model for model in await self._main.models()}
        for engine in self._others():
            try:
                found = {model.name: model for model in await engine.models()} | found
            except Unavailable:
                continue
        return tuple(found[name] for name in sorted(found))

    async def count_tokens(self, call: ModelCall) -> int:
        return await self._found.get(call.model.name, self._main).count_tokens(call)

    async def complete(self, call: ModelCall) -> Completion:
        return await self._found.get(call.model.name, self._main).complete(call)
