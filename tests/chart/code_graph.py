"""The service graph as the code has it: read from the services' settings and from what they open.

A component calls another where its settings name the other's target and its wiring opens a
channel to it. Nothing here is copied from the chart.
"""

import ast
import re
from functools import cache

from pydantic_settings import BaseSettings

import cost_ledger.config
import episodes.config
import gateway.config
import orchestrator_inference.config
import orchestrator_inference.policy_engines.config
import podium_training.rollouts.worker
import tool_adapters.config
import tool_adapters.sandbox.config
import tool_registry.config
from chart.rendering import ROOT

SETTINGS: dict[str, type[BaseSettings]] = {
    "gateway": gateway.config.GatewaySettings,
    "episodes": episodes.config.ServerConfig,
    "episode-worker": episodes.config.WorkerConfig,
    "orchestrator-inference": orchestrator_inference.config.OrchestratorInferenceSettings,
    "policy-engines": orchestrator_inference.policy_engines.config.PolicyEnginesSettings,
    "tool-registry": tool_registry.config.ToolRegistrySettings,
    "tool-adapters": tool_adapters.config.ToolAdaptersSettings,
    "sandbox": tool_adapters.sandbox.config.SandboxSettings,
    "rollout-worker": podium_training.rollouts.worker.WorkerSettings,
    "cost-ledger": cost_ledger.config.CostLedgerSettings,
}
# Where each component is wired.
WIRING = {
    "gateway": "services/gateway/clients.py",
    "episodes": "services/episodes/server.py",
    "episode-worker": "services/episodes/worker.py",
    "orchestrator-inference": "services/orchestrator_inference/server.py",
    "policy-engines": "services/orchestrator_inference/policy_engines/worker.py",
    "tool-registry": "services/tool_registry/server.py",
    "tool-adapters": "services/tool_adapters/server.py",
    "sandbox": "services/tool_adapters/sandbox/server.py",
    "rollout-worker": "training/podium_training/rollouts/worker.py",
    "cost-ledger": "services/cost_ledger/server.py",
}
# A setting of this name says where something outside of the release is.
OUTSIDE = {
    "database_url": "postgres",
    "temporal_target": "temporal",
    "kafka": "kafka",
    "engine_base_url": "model-server",
    "merged_engine_urls": "policy-engine",
    # Copies of a service of KServe are made through the API server.
    "blueprint": "kubernetes",
    # Tenants' tools are anywhere: a guard that lists hosts is the mark of it.
    "allowed_hosts": "internet",
}


@cache
def named_in_settings(component: str) -> frozenset[str]:
    found = set()
    for field in SETTINGS[component].model_fields:
        if field in OUTSIDE:
            found.add(OUTSIDE[field])
        elif match := re.fullmatch(r"(\w+)_target", field):
            found.add(_component(match.group(1)))
    return frozenset(found)


def settings_used_in_wiring(component: str) -> frozenset[str]:
    """Attributes `<something>_target` that the wiring of a component reads."""
    tree = ast.parse((ROOT / WIRING[component]).read_text())
    return frozenset(
        _component(node.attr.removesuffix("_target"))
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and node.attr.endswith("_target")
    )


def _component(name: str) -> str:
    return name.replace("_", "-")
