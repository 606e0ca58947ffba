"""Tools in the console: tried by hand, imported, and compared over their versions."""

import json
import re

import pytest

from browser.conftest import ConsoleUnderTest, Person

pytestmark = pytest.mark.browser

PETS = {
    "openapi": "3.0.3",
    "info": {"title": "Pets of the console", "version": "1"},
    "servers": [{"url": "https://pets.example"}],
    "paths": {
        "/pets/{id}": {
            "get": {
                "operationId": "get_pet",
                "summary": "Returns a pet.",
                "parameters": [
                    {"name": "id", "in": "path", "required": True, "schema": {"type": "integer"}}
                ],
                "responses": {"200": {"description": "A pet."}},
            },
            "delete": {
                "operationId": "delete_pet",
                "summary": "Deletes a pet.",
                "security": [{"key": []}],
                "parameters": [
                    {"name": "id", "in": "path", "required": True, "schema": {"type": "integer"}}
                ],
                "responses": {"204": {"description": "Gone."}},
            },
        }
    },
    "components": {"securitySchemes": {"key": {"type": "apiKey", "in": "header", "name": "X-Key"}}},
}


async def test_a_tool_owner_tries_a_tool_by_the_fields_of_its_schema(person: Person) -> None:
    await person.sign_in("tool-owner")
    await person.open("/tools/calculator")
    await person.page.get_by_role("tab", name="Try it").click()
    await person.page.get_by_label("expression").fill("6*7")
    await person.page.get_by_role("button", name="Call", exact=True).click()
    result = person.page.get_by_role("status", name="Result")
    await result.wait_for()
    shown = await result.inner_text()
    assert "42" in shown and "balanced@1" in shown and "$" in shown
    # What the tool rejects is its answer, too.
    await person.page.get_by_label("expression").fill("6*")
    await person.page.get_by_role("button", name="Call", exact=True).click()
    await result.locator("p.error").wait_for()


async def test_an_effectful_tool_is_called_only_after_a_question(person: Person) -> None:
    await person.sign_in("tool-owner")
    await person.open("/tools/board_create_task")
    await person.page.get_by_role("tab", name="Try it").click()
    await person.page.get_by_label("user_id").fill("user_1")
    await person.page.get_by_label("title").fill("Water the plants")
    call = person.page.get_by_role("button", name="Call", exact=True)
    await call.click()
    dialog = person.page.get_by_role("dialog")
    assert "Water the plants" in await dialog.inner_text()
    await dialog.get_by_role("button", name="Cancel").click()
    await dialog.wait_for(state="detached")
    assert await person.page.get_by_role("status", name="Result").count() == 0
    await call.click()
    await dialog.get_by_role("button", name="Call it").click()
    await person.page.get_by_role("status", name="Result").wait_for()


async def test_a_tool_owner_imports_the_operations_of_an_openapi_document(person: Person) -> None:
    await person.sign_in("tool-owner")
    await person.open("/tools")
    await person.page.get_by_role("link", name="Import tools").click()
    await person.page.get_by_label("Document", exact=True).fill("openapi: [")
    await person.page.get_by_role("button", name="Read", exact=True).click()
    await person.page.get_by_role("alert").wait_for()
    await person.page.get_by_label("Document", exact=True).fill(json.dumps(PETS))
    await person.page.get_by_label("Prefix of the names").fill("zoo_")
    await person.page.get_by_role("button", name="Read", exact=True).click()
    await person.sees_heading("1 tool in Pets of the console")
    left_out = person.page.get_by_role("region", name="Left out")
    assert "DELETE /pets/{id}" in await left_out.inner_text()
    await person.page.get_by_label("Name of a secret").fill("pets")
    await person.page.get_by_role("button", name="Read", exact=True).click()
    await person.sees_heading("2 tools in Pets of the console")
    await person.page.get_by_text("zoo_delete_pet").first.click()
    await person.page.get_by_role("button", name="Register 1 tool").click()
    await person.sees("version 1 created")
    await person.page.get_by_role("link", name="zoo_get_pet").click()
    await person.sees_heading("zoo_get_pet")


async def test_a_tool_owner_reads_the_tools_of_an_mcp_server(person: Person) -> None:
    await person.sign_in("tool-owner")
    await person.open("/tool-import")
    await person.page.get_by_role("tab", name="MCP server").click()
    await person.page.get_by_label("Or a server that the operator defined").fill("nowhere")
    await person.page.get_by_role("button", name="Read", exact=True).click()
    await person.page.get_by_role("alert").wait_for()
    await person.page.get_by_label("Or a server that the operator defined").fill("tau2-mock")
    await person.page.get_by_label("Prefix of the names").fill("imported_")
    await person.page.get_by_role("button", name="Read", exact=True).click()
    await person.page.get_by_text("imported_create_task").first.wait_for()
    chosen = person.page.get_by_role("region", name="Register")
    row = chosen.get_by_role("row").filter(has_text="imported_create_task")
    assert "effectful" in await row.inner_text()


async def test_versions_of_a_tool_are_compared_line_by_line(
    person: Person, console: ConsoleUnderTest
) -> None:
    spec = {
        "name": "compared",
        "kind": "TOOL_KIND_FUNCTION",
        "side_effect": "SIDE_EFFECT_PURE",
        "connection": {"function": {"function": "calculator"}},
    }
    schema = {"type": "object", "properties": {"expression": {"type": "string"}}}
    async with console.http() as client:
        for text in ("Adds.", "Adds and multiplies."):
            body = {**spec, "description": text, "parameters_json_schema": json.dumps(schema)}
            reply = await client.post("/v1/tools", json={"spec": body})
            assert reply.is_success, reply.text
    await person.sign_in("tool-owner")
    await person.open("/tools/compared")
    await person.page.get_by_role("tab", name="Versions").click()
    changes = person.page.get_by_label("What changed")
    await changes.wait_for()
    shown = await changes.inner_text()
    assert '-   "description": "Adds."' in shown
    assert '+   "description": "Adds and multiplies."' in shown
    await person.page.get_by_role("button", name="Deprecate 1", exact=True).click()
    await person.page.get_by_role("row").get_by_text("deprecated").wait_for()


async def test_how_a_tool_did_over_time_is_counted_in_its_episodes(person: Person) -> None:
    await person.sign_in("developer")
    await person.open("/tools/calculator")
    await person.page.get_by_role("tab", name="Over time").click()
    days = person.page.get_by_role("region", name="Over time")
    await days.get_by_text("100 %").first.wait_for()
    await person.page.get_by_role("link", name=re.compile("episodes?$")).click()
    await person.page.wait_for_url(re.compile("tool_names=calculator"))
    await person.open("/tools/molar_mass")
    await person.page.get_by_role("tab", name="Over time").click()
    await person.sees("No episode called it in the last 30 days")
