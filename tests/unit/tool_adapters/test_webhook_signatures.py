import base64

import pytest

from tool_adapters.webhooks.signatures import UnusableSecret, signatures

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
OTHER = f"whsec_{base64.b64encode(bytes(range(32))).decode()}"


def test_the_example_of_the_standards_own_libraries_has_its_signature() -> None:
    message_id = "msg_p5jXN8AQM9LWM0D4loKWxJek"
    found = signatures(SECRET, message_id, 1614265330, b'{"test": 2432232314}')
    assert found == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


def test_every_secret_of_a_rotation_signs() -> None:
    both = signatures(f"{OTHER}\n{SECRET}\n", "m", 1, b"{}")
    assert both.split() == [signatures(OTHER, "m", 1, b"{}"), signatures(SECRET, "m", 1, b"{}")]


@pytest.mark.parametrize("value", ["", "plain", "whsec_", "whsec_!!!", "whsec_c2hvcnQ="])
def test_what_is_no_secret_is_rejected_without_its_value(value: str) -> None:
    with pytest.raises(UnusableSecret, match="openssl rand") as caught:
        signatures(value, "m", 1, b"{}")
    assert not value or value not in str(caught.value) or value == "whsec_"
