from importlib import import_module

from google.protobuf.descriptor import MethodDescriptor

from podium_kit.rpc.access import AccessUnstated, access_of
from unit.house.source_files import ROOT

GENERATED = ROOT / "protos" / "gen"
FIX = 'add `{ option (podium.common.v1.scope) = "tools:write"; }`, or "any", to the rpc'


def contract_methods() -> list[MethodDescriptor]:
    found: list[MethodDescriptor] = []
    for path in sorted((GENERATED / "podium").rglob("*_service_pb2.py")):
        module = ".".join(path.relative_to(GENERATED).with_suffix("").parts)
        for service in import_module(module).DESCRIPTOR.services_by_name.values():
            found += service.methods
    return found


def method_path(method: MethodDescriptor) -> str:
    return f"{method.containing_service.full_name}/{method.name}"


def test_every_rpc_states_who_may_call_it() -> None:
    silent = []
    for method in contract_methods():
        try:
            access_of(method_path(method))
        except AccessUnstated:
            silent.append(method_path(method))
    assert not silent, f"{FIX}, import podium/common/v1/access.proto, run protogen: {silent}"
