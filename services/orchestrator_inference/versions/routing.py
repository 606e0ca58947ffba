from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace

from orchestrator_inference.errors import VersionNotServed
from orchestrator_inference.models import EngineModel
from podium_kit.policy_versions import Alias, Aliases
from podium_kit.policy_versions.names import PREFIX


class VersionRouting:
    def __init__(self, aliases: Aliases, admitted: Callable[[], frozenset[str]]) -> None:
        self._aliases = aliases
        self._admitted = admitted
        self.in_use: Counter[str] = Counter()

    @contextmanager
    def routed(self, asked: str) -> Iterator[str]:
        """The name to ask the engine for; counted as in use until the call has ended.

        "" means the promoted version, and the engine's default while none was promoted.
        The alias is read at every call, so a rollback holds from the next one. Raises
        VersionNotServed.
        """
        name = self._meant(asked)
        if name.startswith(PREFIX) and name not in self._admitted():
            raise VersionNotServed(name)
        self.in_use[name] += 1
        try:
            yield name
        finally:
            self.in_use[name] -= 1
            # Callers name what they like: what none uses any more is not kept.
            if not self.in_use[name]:
                del self.in_use[name]

    @property
    def admitted(self) -> frozenset[str]:
        return self._admitted()

    def with_aliases(self, models: Iterable[EngineModel]) -> tuple[EngineModel, ...]:
        """The models, and under an alias's name the admitted version it means; by name."""
        found = {model.name: model for model in models}
        for alias in Alias:
            version = self._aliases.current(alias)
            if version in found and version in self.admitted:
                found[alias] = replace(
                    found[version], name=alias.value, version=version, is_default=False
                )
        return tuple(found[name] for name in sorted(found))

    def _meant(self, asked: str) -> str:
        if asked == "":
            return self._aliases.current(Alias.PROMOTED)
        if asked in tuple(Alias):
            version = self._aliases.current(Alias(asked))
            if not version:
                raise VersionNotServed(asked)
            return version
        return asked
