"""A broker that is not there is named at once."""

import pytest

from podium_kit.embedded.ports import free_port
from podium_kit.stream import BrokerUnavailable, KafkaSettings, require_reachable


def test_a_wrong_port_is_named_with_the_fix() -> None:
    port = free_port()
    with pytest.raises(BrokerUnavailable, match=rf"127\.0\.0\.1:{port}.*refused\. Fix bootstrap"):
        require_reachable(KafkaSettings(bootstrap=f"127.0.0.1:{port}"))
