import asyncio
import logging
import os
from collections.abc import Mapping
from typing import Any

from kserve import (
    ApiClient,
    KServeClient,
    V1alpha1LLMInferenceService,
    V1beta1InferenceService,
    constants,
)
from kubernetes import client as kubernetes
from kubernetes import watch
from kubernetes.config import ConfigException
from urllib3.exceptions import HTTPError

from orchestrator_inference.policy_engines.blueprint import (
    BLUEPRINT,
    ENGINE_OF,
    VERSION,
    EngineRules,
    Json,
    engine_name,
    engine_of,
    merge_patch,
)
from podium_kit.rpc.errors import FailedPrecondition, Unavailable

REASON_CHARS_MAX = 500
# Seconds to connect and for an answer.
TIMEOUT_S = (5.0, 30.0)


class ClusterUnreachable(Unavailable):
    def __init__(self, cause: str) -> None:
        super().__init__(
            f"the API server does not answer: {cause}; let the pod reach it "
            "(endpoints.kubernetes) and mount its account, or set KUBECONFIG"
        )


class ClusterRejected(FailedPrecondition):
    def __init__(self, status: int, reason: str) -> None:
        super().__init__(f"the API server rejects with {status}: {reason[:REASON_CHARS_MAX]}")
        self.status = status


log = logging.getLogger(__name__)

APIS = {
    "InferenceService": (constants.KSERVE_V1BETA1_VERSION, "inferenceservices"),
    "LLMInferenceService": (constants.KSERVE_V1ALPHA2_VERSION, "llminferenceservices"),
}
MODELS = {
    "InferenceService": V1beta1InferenceService,
    "LLMInferenceService": V1alpha1LLMInferenceService,
}


class KServeEngines:
    """Engines of one namespace. Every method raises ClusterUnreachable or ClusterRejected."""

    def __init__(self, namespace: str, blueprint: str, rules: EngineRules) -> None:
        """Reads the pod's account, or the kubeconfig. Raises ClusterUnreachable without either."""
        try:
            # A path of its own, since the SDK only looks in the home.
            self._api = KServeClient(config_file=os.environ.get("KUBECONFIG")).api_instance
        except ConfigException as error:
            raise ClusterUnreachable(str(error)) from error
        version, plural = APIS[rules.kind]
        self._where = (constants.KSERVE_GROUP, version, namespace, plural)
        self._blueprint = blueprint
        self._rules = rules
        self._seen = ""
        """resourceVersion of the last list; a watch starts after it."""

    async def versions(self) -> dict[str, Json]:
        found = await self._call(
            self._api.list_namespaced_custom_object,
            label_selector=f"{ENGINE_OF}={self._blueprint}",
        )
        self._seen = found["metadata"]["resourceVersion"]
        named = {_version(each): each for each in found["items"]}
        return {version: each for version, each in named.items() if version}

    async def bring(self, version: str, found: Json | None) -> None:
        blueprint = await self._blueprint_now()
        wanted = _serialized(engine_of(version, blueprint, self._rules))
        if found is None:
            await self._call(self._api.create_namespaced_custom_object, wanted)
            log.info("engine of %s was made", version)
        elif _annotation(found, BLUEPRINT) != _annotation(wanted, BLUEPRINT):
            patch = {
                "metadata": {key: wanted["metadata"][key] for key in ("labels", "annotations")},
                "spec": merge_patch(found["spec"], wanted["spec"]),
            }
            name = engine_name(version)
            await self._call(self._api.patch_namespaced_custom_object, name, patch)
            log.info("engine of %s was patched", version)

    async def check(self) -> None:
        await self._blueprint_now()

    async def remove(self, version: str) -> None:
        """Deletes a version's engine; one that is gone already is as good."""
        try:
            await self._call(self._api.delete_namespaced_custom_object, engine_name(version))
        except ClusterRejected as rejection:
            if rejection.status != 404:
                raise
        log.info("engine of %s was removed", version)

    async def changed(self, timeout_s: float) -> None:
        """Returns when an engine changed since `versions`, or after the timeout."""
        await self._call(
            self._watched,
            timeout_seconds=max(1, int(timeout_s)),
            # The server ends a watch; one that has gone is given up a little later.
            _request_timeout=(TIMEOUT_S[0], timeout_s + TIMEOUT_S[1]),
        )

    async def _blueprint_now(self) -> Json:
        found: Json = await self._call(self._api.get_namespaced_custom_object, self._blueprint)
        return found

    def _watched(self, *where: str, **options: Any) -> None:
        events = watch.Watch().stream(
            self._api.list_namespaced_custom_object,
            *where,
            label_selector=f"{ENGINE_OF}={self._blueprint}",
            resource_version=self._seen,
            **options,
        )
        next(iter(events), None)

    async def _call(self, method: Any, *arguments: Any, **options: Any) -> Any:
        options.setdefault("_request_timeout", TIMEOUT_S)
        try:
            return await asyncio.to_thread(method, *self._where, *arguments, **options)
        except kubernetes.ApiException as error:
            raise ClusterRejected(error.status or 0, error.body or error.reason) from error
        except (HTTPError, OSError) as error:
            raise ClusterUnreachable(str(error)) from error


def not_ready(engine: Json) -> str:
    """Returns the reason in KServe's words; "" when the engine is ready."""
    conditions = {each["type"]: each for each in engine.get("status", {}).get("conditions", [])}
    if conditions.get("Ready", {}).get("status") == "True":
        return ""
    reasons = [
        f"{kind}: {' '.join(filter(None, (each.get('reason'), each.get('message'))))}"
        for kind, each in sorted(conditions.items())
        if each.get("status") != "True" and (each.get("reason") or each.get("message"))
    ]
    return "; ".join(reasons) or "KServe gives no reason"


def _serialized(engine: Json) -> Json:
    """Serializes an engine as the SDK's own client does; the client of `kubernetes` would not."""
    model = MODELS[engine["kind"]](
        api_version=engine["apiVersion"],
        kind=engine["kind"],
        metadata=engine["metadata"],
        spec=engine["spec"],
    )
    found: Json = ApiClient().sanitize_for_serialization(model)
    return found


def _version(engine: Mapping[str, Any]) -> str:
    return _annotation(engine, VERSION)


def _annotation(engine: Mapping[str, Any], key: str) -> str:
    return str(engine["metadata"].get("annotations", {}).get(key, ""))
