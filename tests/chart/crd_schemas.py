"""Custom resources against the schemas and rules of their CRDs, without a cluster.

The CRDs are not part of the project: `make crds` fetches those of crds.yaml into the cache, and
PODIUM_CRDS names another folder of them. Structural schemas become JSON Schema with closed
objects, x-kubernetes-validations are evaluated by cel-python. Own code because no package does
both offline.
"""

import json
import os
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import celpy
import celpy.adapter
import yaml
from jsonschema import Draft202012Validator

from chart.rendering import LOADER, ROOT, Json
from podium_kit.embedded.wheels import cache_dir

FOLDER = Path(os.environ.get("PODIUM_CRDS") or cache_dir() / "crds")
CACHE = ROOT / "build/crds"
KEPT = {"type", "enum", "pattern", "required", "minimum", "maximum", "minLength", "maxLength"}
KEPT |= {"minItems", "maxItems", "format", "uniqueItems", "minProperties", "maxProperties"}
OPEN = "x-kubernetes-preserve-unknown-fields"
MISSING = (
    f"tests/chart/test_custom_kinds.py: the CRDs of the operators are not in {FOLDER}: make crds "
    "fetches those of tests/chart/crds.yaml, with their versions and digests"
)


def available() -> bool:
    return FOLDER.is_dir() and any(FOLDER.glob("*.yaml"))


@cache
def schemas() -> dict[tuple[str, str], Json]:
    """(apiVersion, kind) to the structural schema of every served version."""
    found = {}
    for path in sorted(FOLDER.glob("*.yaml")):
        for key, schema in json.loads(_compact(path)).items():
            api_version, kind = key.split(" ")
            found[api_version, kind] = schema
    return found


def _compact(path: Path) -> str:
    """The schemas of a CRD as JSON, kept in build/: the YAML takes seconds to read."""
    kept = CACHE / f"{path.stem}-{path.stat().st_size}.json"
    if not kept.exists():
        crd = yaml.load(path.read_text(), LOADER)["spec"]
        served = {
            f"{crd['group']}/{version['name']} {crd['names']['kind']}": version["schema"][
                "openAPIV3Schema"
            ]
            for version in crd["versions"]
            if version["served"]
        }
        kept.parent.mkdir(parents=True, exist_ok=True)
        # Two test processes may do this at once: each renames a whole file into place.
        partial = kept.with_suffix(f".{os.getpid()}")
        partial.write_text(json.dumps(served))
        partial.rename(kept)
    return kept.read_text()


@cache
def validator(api_version: str, kind: str) -> Draft202012Validator:
    schema = _json_schema(schemas()[api_version, kind])
    schema["properties"] |= dict.fromkeys(("apiVersion", "kind", "metadata", "status"), True)
    return Draft202012Validator(schema)


def faults(obj: Json) -> list[str]:
    kind = validator(obj["apiVersion"], obj["kind"])
    shape = [f"{_path(error.absolute_path)}: {error.message}" for error in kind.iter_errors(obj)]
    structural = schemas()[obj["apiVersion"], obj["kind"]]
    return shape or list(_broken_rules(structural, obj, ()))


def _json_schema(node: Json) -> Json:
    """A structural schema as JSON Schema; objects are closed unless it says otherwise."""
    found: Json = {key: value for key, value in node.items() if key in KEPT}
    if node.get("x-kubernetes-int-or-string"):
        found.pop("type", None)
        found["anyOf"] = [{"type": "integer"}, {"type": "string"}]
    if "properties" in node:
        found["properties"] = {key: _json_schema(sub) for key, sub in node["properties"].items()}
        found["additionalProperties"] = bool(node.get(OPEN))
    if isinstance(node.get("additionalProperties"), dict):
        found["additionalProperties"] = _json_schema(node["additionalProperties"])
    if "items" in node:
        found["items"] = _json_schema(node["items"])
    for word in ("allOf", "oneOf"):
        if word in node:
            found[word] = [_partial(sub) for sub in node[word]]
    if node.get("nullable") and "type" in found:
        found["type"] = [found["type"], "null"]
    return found


def _partial(node: Json) -> Json:
    """Branches of allOf and oneOf only constrain: they never close an object."""
    found = {key: value for key, value in node.items() if key in KEPT | {"not", "anyOf", "oneOf"}}
    if "properties" in node:
        found["properties"] = {key: _partial(sub) for key, sub in node["properties"].items()}
    return found


def _broken_rules(schema: Json, value: Any, path: tuple[str, ...]) -> Iterator[str]:
    for rule in schema.get("x-kubernetes-validations", ()):
        # Rules on changes need the object as it was.
        if "oldSelf" not in rule["rule"] and not holds(rule["rule"], value):
            yield f"{_path(path)}: {rule.get('message', rule['rule'])}"
    if isinstance(value, dict):
        for key, sub in schema.get("properties", {}).items():
            if key in value:
                yield from _broken_rules(sub, value[key], (*path, key))
        if isinstance(schema.get("additionalProperties"), dict):
            for key, item in value.items():
                yield from _broken_rules(schema["additionalProperties"], item, (*path, key))
    if isinstance(value, list) and "items" in schema:
        for index, item in enumerate(value):
            yield from _broken_rules(schema["items"], item, (*path, str(index)))


def holds(rule: str, value: Any) -> bool:
    return bool(_program(rule).evaluate({"self": celpy.adapter.json_to_cel(value)}))


@cache
def _program(rule: str) -> celpy.Runner:
    environment = celpy.Environment()
    return environment.program(environment.compile(rule))


def _path(parts: Any) -> str:
    return "/".join(str(part) for part in parts) or "/"
