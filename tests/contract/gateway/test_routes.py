import pytest
from google.protobuf.descriptor import FieldDescriptor

from gateway.clients import CONTRACTS
from gateway.rest.messages import method_of
from gateway.rest.openapi import PATH_PARAMETER
from gateway.rest.routes import ROUTES, Route

# Services alone use these: for costs, measurements, followed tools, changes of the catalogue, and
# calls and decisions of a running episode.
INTERNAL = {
    "AllowFollowing",
    "Apply",
    "ApplyEmbeddings",
    "AwaitChange",
    "CheckAnswer",
    "CheckCalls",
    "CloseEpisode",
    "DeliverWebhook",
    "EndFollowing",
    "Invoke",
    "InvokeStreaming",
    "MakeDirectCall",
    "MeasurePdf",
    "RecordToolFacts",
    "ReleaseEpisode",
    "ResolveToolset",
    "UpdateFollowedTool",
}
routes = pytest.mark.parametrize("route", ROUTES, ids=lambda route: f"{route.method} {route.path}")


@routes
def test_the_rpc_exists(route: Route) -> None:
    assert method_of(route).name == route.rpc


@routes
def test_path_parameters_are_text_fields_of_the_request(route: Route) -> None:
    fields = method_of(route).input_type.fields_by_name
    for name in PATH_PARAMETER.findall(route.path):
        assert fields[name].type == FieldDescriptor.TYPE_STRING


@routes
def test_a_new_episodes_id_is_a_text_field_of_the_request(route: Route) -> None:
    fields = method_of(route).input_type.fields_by_name
    assert not route.new_episode_id or route.new_episode_id in fields


def test_no_two_routes_are_the_same() -> None:
    places = [(route.method, PATH_PARAMETER.sub("{}", route.path)) for route in ROUTES]
    assert len(set(places)) == len(places)


def test_every_rpc_has_a_route_or_is_internal() -> None:
    offered = {
        method.name
        for contract in CONTRACTS
        for service in contract.DESCRIPTOR.services_by_name.values()
        for method in service.methods
    } | {route.rpc for route in ROUTES}
    assert offered - {route.rpc for route in ROUTES} == INTERNAL
