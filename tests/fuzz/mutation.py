import json
from random import Random
from typing import Any

STRANGE: tuple[Any, ...] = (
    None,
    True,
    False,
    0,
    -1,
    2**31,
    2**63,
    10**400,
    1e308,
    float("nan"),
    float("inf"),
    -0.0,
    "",
    " ",
    "\x00",
    "\ud800",
    "a" * 10_000,
    "1e999999",
    "../..",
    "#/x",
    [],
    {},
    [[]],
    {"": ""},
    {"$ref": "#"},
)
EVENT = b"data: "
CHANGES_MAX = 4


def mutated(data: bytes, random: Random) -> bytes:
    """JSON with a few parts changed, each event of a stream likewise; else changed bytes."""
    lines = data.split(b"\n")
    if any(line.startswith(EVENT) for line in lines):
        place = random.choice([i for i, line in enumerate(lines) if line.startswith(EVENT)])
        lines[place] = EVENT + mutated(lines[place].removeprefix(EVENT), random)
        return b"\n".join(lines)
    try:
        document = json.loads(data)
    except (ValueError, RecursionError):
        return _other_bytes(data, random)
    for _ in range(random.randint(1, CHANGES_MAX)):
        document = _changed(document, random)
    return json.dumps(document).encode(errors="surrogatepass")


def _changed(node: Any, random: Random) -> Any:
    if isinstance(node, dict) and node and random.random() < 0.8:
        name = random.choice(list(node))
        match random.randrange(6):
            case 0:
                return {other: value for other, value in node.items() if other != name}
            case 1:
                return node | {str(random.choice(STRANGE)): node[name]}
            case _:
                return node | {name: _changed(node[name], random)}
    if isinstance(node, list) and node and random.random() < 0.8:
        place = random.randrange(len(node))
        match random.randrange(6):
            case 0:
                return node[:place] + node[place + 1 :]
            case 1:
                return [*node, *node]
            case _:
                return [*node[:place], _changed(node[place], random), *node[place + 1 :]]
    if random.random() < 0.02:
        return _nested(random)
    return random.choice(STRANGE)


def _nested(random: Random) -> Any:
    node: Any = 0
    for _ in range(random.randint(1, 900)):
        node = [node] if random.random() < 0.5 else {"a": node}
    return node


def _other_bytes(data: bytes, random: Random) -> bytes:
    changed = bytearray(data or b" ")
    for _ in range(random.randint(1, CHANGES_MAX)):
        place = random.randrange(len(changed) + 1)
        match random.randrange(4):
            case 0:
                del changed[place : place + random.randint(1, 20)]
            case 1:
                changed[place:place] = random.randbytes(random.randint(1, 4))
            case 2:
                changed[place:place] = changed[place : place + random.randint(1, 40)]
            case _:
                changed[place:place] = str(random.choice(STRANGE)).encode(errors="surrogatepass")
    return bytes(changed)
