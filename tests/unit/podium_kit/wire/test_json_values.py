"""Messages as REST writes them: unset fields included, unset enums left out at any depth."""

from google.protobuf.timestamp_pb2 import Timestamp

from podium.common.v1 import usage_pb2
from podium.ledger.v1 import price_book_service_pb2
from podium.registry.v1 import tool_pb2
from podium_kit.wire import json_values

UNSET = "PARAMETER_LOCATION_UNSPECIFIED"


def test_enums_that_say_something_stay_and_others_are_left_out() -> None:
    tool = tool_pb2.ToolSpec(name="a", kind=tool_pb2.TOOL_KIND_HTTP)
    values = json_values(tool)
    assert values["kind"] == "TOOL_KIND_HTTP"
    assert (values["description"], values["tags"]) == ("", [])
    assert "side_effect" not in values


def test_so_are_those_in_lists_in_maps_and_below_them() -> None:
    http = tool_pb2.HttpConnection(headers={"x": UNSET})
    http.parameter_locations["a"] = tool_pb2.PARAMETER_LOCATION_PATH
    http.parameter_locations["b"] = tool_pb2.PARAMETER_LOCATION_UNSPECIFIED
    values = json_values(tool_pb2.ToolSpec(connection=tool_pb2.Connection(http=http)))[
        "connection"
    ]["http"]
    assert values["parameter_locations"] == {"a": "PARAMETER_LOCATION_PATH"}
    # A text of the caller is no enum.
    assert values["headers"] == {"x": UNSET}

    component = price_book_service_pb2.PriceComponent(unit_price="1")
    spec = price_book_service_pb2.PriceSpec(
        sku="a", components=[component], start_time=Timestamp(seconds=1)
    )
    effective = price_book_service_pb2.GetEffectivePricesResponse()
    effective.prices["a"].spec.CopyFrom(spec)
    priced = json_values(effective)["prices"]["a"]["spec"]
    assert priced["start_time"] == "1970-01-01T00:00:01Z"
    assert "dimension" not in priced["components"][0]
    component.dimension = usage_pb2.USAGE_DIMENSION_CALL
    assert json_values(component)["dimension"] == "USAGE_DIMENSION_CALL"
