from typing import Any

import pytest

from podium.registry.v1 import tool_pb2
from podium_kit.tool_kinds import HTTP
from podium_kit.tool_kinds.errors import InvalidTool

KEY = tool_pb2.SecretRef(name="key")
OAUTH2: dict[str, Any] = {
    "token_url": "https://login.example/token",
    "client_id": "podium",
    "client_secret": KEY,
}


def check(auth: tool_pb2.HttpAuth, **fields: Any) -> None:
    http = tool_pb2.HttpConnection(
        method="GET", url_template="https://api.example/x", auth=auth, **fields
    )
    HTTP.check(tool_pb2.ToolSpec(connection=tool_pb2.Connection(http=http)))


@pytest.mark.parametrize(
    "auth",
    [
        tool_pb2.HttpAuth(bearer=KEY),
        tool_pb2.HttpAuth(basic=tool_pb2.BasicAuth(username="", password=KEY)),
        tool_pb2.HttpAuth(query=tool_pb2.QueryAuth(parameter="key", secret=KEY)),
        tool_pb2.HttpAuth(oauth2_client_credentials=tool_pb2.OAuth2ClientCredentials(**OAUTH2)),
    ],
    ids=lambda auth: auth.WhichOneof("method"),
)
def test_every_way_that_names_its_secret_is_accepted(auth: tool_pb2.HttpAuth) -> None:
    check(auth)


@pytest.mark.parametrize(
    ("auth", "words"),
    [
        (tool_pb2.HttpAuth(), "auth.method is unset"),
        (tool_pb2.HttpAuth(bearer=tool_pb2.SecretRef()), "bearer.name is unset"),
        (tool_pb2.HttpAuth(basic=tool_pb2.BasicAuth(username="a")), "password.name is unset"),
        *(
            (
                tool_pb2.HttpAuth(
                    oauth2_client_credentials=tool_pb2.OAuth2ClientCredentials(**(OAUTH2 | wrong))
                ),
                words,
            )
            for wrong, words in (
                ({"token_url": "login.example"}, "token_url"),
                ({"token_url": "https://login.example:65536/"}, "is not a URL: Port out of range"),
                ({"token_url": "https://login.example:0/"}, "is not an http or https URL"),
                ({"token_url": "https://ada:pw@login.example/"}, "holds credentials"),
                ({"client_secret": tool_pb2.SecretRef()}, "client_secret.name is unset"),
            )
        ),
    ],
)
def test_a_way_that_lacks_something_is_rejected_by_its_name(
    auth: tool_pb2.HttpAuth, words: str
) -> None:
    with pytest.raises(InvalidTool, match=words):
        check(auth)


def test_two_ways_at_once_are_rejected() -> None:
    with pytest.raises(InvalidTool, match="give one of them"):
        check(tool_pb2.HttpAuth(bearer=KEY), secret=KEY, secret_header="X-Api-Key")
