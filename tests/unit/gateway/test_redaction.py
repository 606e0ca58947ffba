"""What the audit log shows carries no secret, under any name and in any place."""

from typing import Any

import pytest

from gateway.audit.redaction import REDACTED, redacted
from podium_kit.rpc.identity import Role


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ({"Authorization": "Bearer abc"}, {"Authorization": REDACTED}),
        ({"headers": [{"x-api-key": "abc"}]}, {"headers": [{"x-api-key": REDACTED}]}),
        ({"password": ""}, {"password": ""}),
        # A reference names a secret; it is not one.
        ({"secret": {"name": "engine"}}, {"secret": {"name": "engine"}}),
        ({"max_tokens": 5, "name": "weather"}, {"max_tokens": 5, "name": "weather"}),
        ({"note": f"use pod_{'0' * 16}_abc please"}, {"note": f"use {REDACTED} please"}),
        ({"note": "eyJhbGciOi.eyJzdWIi.c2ln"}, {"note": REDACTED}),
        ({"roles": [Role.DEVELOPER]}, {"roles": ["developer"]}),
        ({"half \ud83d": "half \ud83d"}, {"half \ud83d": "half \ufffd"}),
        # Quadratic for patterns that go back: it would keep every tenant waiting for minutes.
        ({"description": "eyJ-" * 1_000_000}, {"description": "eyJ-" * 1_000_000}),
        (None, None),
    ],
)
def test_secrets_are_redacted_and_the_rest_stays(value: Any, shown: Any) -> None:
    assert redacted(value) == shown
