"""What a schema refers to elsewhere is neither opened nor asked for."""

import json
import socket
from pathlib import Path

import pytest
from referencing.exceptions import Unresolvable

from podium_kit.json_schemas.validators import validator_of


@pytest.mark.parametrize("keyword", ["$ref", "$dynamicRef"])
def test_a_url_is_not_asked(keyword: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"http://127.0.0.1:{server.getsockname()[1]}/hang"
        with pytest.raises(Unresolvable):
            validator_of({"if": True, "then": {keyword: url}}).is_valid({})
        server.setblocking(False)
        with pytest.raises(BlockingIOError):
            server.accept()


def test_a_file_is_not_opened(tmp_path: Path) -> None:
    file = tmp_path / "schema"
    file.write_text(json.dumps(True))
    with pytest.raises(Unresolvable):
        validator_of({"$ref": file.as_uri()}).is_valid({})


def test_what_a_schema_holds_is_found() -> None:
    schema = {"$ref": "#/$defs/whole", "$defs": {"whole": {"type": "integer"}}}
    assert validator_of(schema).is_valid(1)
    assert not validator_of(schema).is_valid("1")
