from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace

from orchestrator_inference.errors import VersionNotServed
from orchestrator_inference.models import EngineModel
from podium_kit.policy_versions import Alias, Aliases
from podium_kit.policy_versions.names import PREFIX
from podium_kit.rpc.identity import current_identity


class VersionRouting:
    """The versions that the caller's tenant may use: shared ones and those of its episodes."""

    def __init__(
        self,
        aliases: Aliases,
        admitted: Callable[[], frozenset[str]],
        owners: Callable[[], Mapping[str, str]],
    ) -> None:
        self._aliases = aliases
        self._admitted = admitted
        self._owners = owners
        self.in_use: Counter[str] = Counter()

    @contextmanager
    def routed(self, asked: str) -> Iterator[str]:
        """The name to ask the engine for; counted as in use until the call has ended.

        "" means the promoted version, and the engine's default while none was promoted.
        The alias is read at every call, so a rollback holds from the next one. Raises
        VersionNotServed.
        """
        name = self._meant(asked)
        if name.startswith(PREFIX) and name not in self.admitted:
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
        return frozenset(filter(self._may_use, self._admitted()))

    def with_aliases(self, models: Iterable[EngineModel]) -> tuple[EngineModel, ...]:
        """The models, and under an alias's name the admitted version it means; by name."""
        found = {model.name: model for model in models if self._may_use(model.name)}
        for alias in Alias:
            version = self._aliases.current(alias)
            if version in found and version in self.admitted:
                found[alias] = replace(
                    found[version], name=alias.value, version=version, is_default=False
                )
        return tuple(found[name] for name in sorted(found))

    def _may_use(self, name: str) -> bool:
        return self._owners().get(name, "") in ("", current_identity().tenant)

    def _meant(self, asked: str) -> str:
        if asked == "":
            return self._aliases.current(Alias.PROMOTED)
        if asked in tuple(Alias):
            version = self._aliases.current(Alias(asked))
            if not version:
                raise VersionNotServed(asked)
            return version
        return asked
