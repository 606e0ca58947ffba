"""Makes values.schema.json and the README's table of a chart from its commented values.yaml.

    python scripts/chart_docs.py charts/podium [--check]

Types come from the defaults, meanings from the comments above the keys, everything else from
"@schema {...}" lines in those comments and from schema/definitions.yaml.
"""

import argparse
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

MARKER = "@schema "
START, END = "<!-- values: made by `make chart-docs` -->", "<!-- end of values -->"
TYPES = {
    "tag:yaml.org,2002:str": "string",
    "tag:yaml.org,2002:int": "integer",
    "tag:yaml.org,2002:float": "number",
    "tag:yaml.org,2002:bool": "boolean",
    "tag:yaml.org,2002:seq": "array",
    "tag:yaml.org,2002:map": "object",
}
Json = dict[str, Any]


class ValuesFile:
    def __init__(self, text: str) -> None:
        self._lines = text.splitlines()
        root = yaml.compose(text, yaml.SafeLoader)
        if not isinstance(root, yaml.MappingNode):
            raise SystemExit("values.yaml holds no mapping")
        self.root = root

    def schema(self, node: yaml.Node) -> Json:
        found: Json = {"type": TYPES[node.tag]}
        if isinstance(node, yaml.MappingNode):
            found["additionalProperties"] = False
            found["properties"] = {
                key.value: self._property(key, value) for key, value in node.value
            }
        return found

    def rows(self, node: yaml.Node, path: str = "") -> Iterator[tuple[str, str, str, str]]:
        """Key, type, default and meaning, one per line of the README's table."""
        for key, value in node.value:
            name = f"{path}{key.value}"
            meaning, extra = self._comment(key)
            inner = isinstance(value, yaml.MappingNode) and value.value and "$ref" not in extra
            if inner:
                if meaning:
                    yield name, "object", "", meaning
                yield from self.rows(value, f"{name}.")
            elif meaning or "." in name:
                yield name, _kind(value, extra), json.dumps(_constructed(value)), meaning

    def _property(self, key: yaml.Node, value: yaml.Node) -> Json:
        meaning, extra = self._comment(key)
        described = {"description": meaning} if meaning else {}
        if "$ref" in extra:
            return described | extra
        return described | _merged(self.schema(value), extra)

    def _comment(self, key: yaml.Node) -> tuple[str, Json]:
        lines: list[str] = []
        at = key.start_mark.line - 1
        alone = self._lines[at + 1][: key.start_mark.column].strip() == ""
        while alone and at >= 0 and self._lines[at].strip().startswith("#"):
            lines.insert(0, self._lines[at].strip().lstrip("#").strip())
            at -= 1
        text = " ".join(line for line in lines if not line.startswith(MARKER))
        extra = [line.removeprefix(MARKER) for line in lines if line.startswith(MARKER)]
        return text, yaml.safe_load(extra[0]) if extra else {}


def _merged(base: Json, extra: Json) -> Json:
    merged = dict(base)
    for key, value in extra.items():
        both = isinstance(value, dict) and isinstance(merged.get(key), dict)
        merged[key] = _merged(merged[key], value) if both else value
    return merged


def _constructed(node: yaml.Node) -> Any:
    return yaml.safe_load(yaml.serialize(node))


def _kind(node: yaml.Node, extra: Json) -> str:
    return str(extra["$ref"]).removeprefix("#/$defs/") if "$ref" in extra else TYPES[node.tag]


# A parent chart passes `global` on, and its condition for a dependency is a value of that.
HELMS_OWN: Json = {"global": {"type": "object"}, "enabled": {"type": "boolean"}}


def chart_schema(values: ValuesFile, definitions: Json) -> Json:
    dialect: Json = {"$schema": "https://json-schema.org/draft/2020-12/schema"}
    schema = dialect | values.schema(values.root)
    schema["properties"] |= HELMS_OWN
    return schema | {"$defs": definitions}


def let_through(schema: Json, moved: list[dict[str, str]]) -> None:
    """Keys of deprecated.yaml pass the schema, so that a template can say where they went."""
    for key in moved:
        *parents, name = key["key"].split(".")
        properties = schema["properties"]
        for parent in parents:
            properties = properties[parent]["properties"]
        properties[name] = {"deprecated": True, "description": key["hint"]}


def chart_readme(text: str, values: ValuesFile) -> str:
    lines = ["| Key | Type | Default | Meaning |", "|---|---|---|---|"]
    for name, kind, default, meaning in values.rows(values.root):
        shown = f"`{default}`" if default else ""
        lines.append(f"| `{name}` | {kind} | {shown} | {meaning} |".replace("  ", " "))
    before, rest = text.split(START)
    return "\n".join([before + START, "", *lines, "", END + rest.split(END)[1]])


def generated(chart: Path) -> dict[Path, str]:
    values = ValuesFile((chart / "values.yaml").read_text())
    definitions = yaml.safe_load((chart / "schema/definitions.yaml").read_text())
    # Others are made from code (scripts/trainer_schema.py), each of the name of its file.
    made = sorted((chart / "schema").glob("*.json"))
    definitions |= {path.stem: json.loads(path.read_text()) for path in made}
    schema = chart_schema(values, definitions)
    let_through(schema, yaml.safe_load((chart / "deprecated.yaml").read_text()))
    readme = chart / "README.md"
    return {
        chart / "values.schema.json": json.dumps(schema, indent=1) + "\n",
        readme: chart_readme(readme.read_text(), values),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("charts", type=Path, nargs="+")
    parser.add_argument("--check", action="store_true", help="write nothing, fail when stale")
    arguments = parser.parse_args()
    files = {path: text for chart in arguments.charts for path, text in generated(chart).items()}
    stale = [path for path, text in files.items() if not path.exists() or path.read_text() != text]
    if arguments.check and stale:
        print(f"stale, run make chart-docs: {', '.join(map(str, stale))}", file=sys.stderr)
        return 1
    for path in stale:
        path.write_text(files[path])
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
