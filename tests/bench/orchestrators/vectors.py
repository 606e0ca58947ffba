"""The preference vectors of the comparison, as policies of the platform."""

from pathlib import Path

import yaml
from google.protobuf import json_format

from podium.registry.v1 import policy_pb2
from tool_registry.models import Preferences


def read_policies() -> dict[str, policy_pb2.PolicySpec]:
    """By name, in the order of the table."""
    path = Path(__file__).with_name("policies.yaml")
    documents = yaml.safe_load(path.read_text(encoding="utf-8"))
    admitted = {"unknownPrice": "UNKNOWN_PRICE_RULE_ADMIT"}
    specs = [
        json_format.ParseDict(document | admitted, policy_pb2.PolicySpec())
        for document in documents
    ]
    return {spec.name: spec for spec in specs}


def weights_of(policy: policy_pb2.PolicySpec) -> Preferences:
    """As the registry takes them."""
    given = policy.preferences
    return Preferences(given.outcome, given.compute, given.latency, dict(given.tools))
