from datetime import timedelta

from podium.adapters.v1 import tool_adapter_service_pb2 as pb
from podium_kit.wire import duration_from_proto
from tool_adapters.response_cache.models import CacheRule


def cache_rule_from_proto(request: pb.InvokeRequest) -> CacheRule | None:
    """None where the policy of the call has no cache."""
    if not request.HasField("cache"):
        return None
    cache = request.cache
    return CacheRule(
        policy=request.policy_name,
        ttl=timedelta(seconds=duration_from_proto(cache.ttl)),
        quota_bytes=cache.quota_bytes,
        sampled=cache.sampled,
        charged_percent=cache.charged_percent,
    )
