"""Markup that people write in tools, policies, keys, feedback and decisions is shown as text."""

import asyncio
import json

import pytest

from browser.conftest import HOSTILE, ConsoleUnderTest, Person
from e2e.episodes_over_http import finished

pytestmark = pytest.mark.browser

TOOL = {
    "name": "hostile_words",
    "description": f"Adds. {HOSTILE}",
    "kind": "TOOL_KIND_FUNCTION",
    "side_effect": "SIDE_EFFECT_PURE",
    "connection": {"function": {"function": "calculator"}},
    "parameters_json_schema": json.dumps(
        {
            "type": "object",
            "properties": {"expression": {"type": "string", "title": HOSTILE, "default": HOSTILE}},
        }
    ),
}
POLICY = {
    "name": "hostile-words",
    "instruction": HOSTILE,
    "guardrails": [
        {"name": "words", "action": "GUARDRAIL_ACTION_BLOCK", "deny": {"words": [HOSTILE]}}
    ],
}
PATHS = (
    *("/tools", "/tools/hostile_words", "/policies/hostile-words", "/access"),
    *("/policy-editor?name=hostile-words", "/keys", "/changes", "/approvals"),
)


async def rejected(console: ConsoleUnderTest) -> str:
    """An episode whose call a person denied with such words, and with such feedback."""
    episode = await console.start("Pay 6 x 7 dollars, with words", policy="careful")
    async with console.http() as admin:
        decision = {"turn": 1, "approved": False, "reason": HOSTILE}
        while True:
            reply = await admin.post(f"/v1/episodes/{episode}/approve", json=decision)
            if reply.is_success:
                break
            await asyncio.sleep(0.05)
        await finished(admin, episode)
        feedback = {"id": "words", "label": "<b>bad</b>", "comment": HOSTILE, "score": 0}
        reply = await admin.post(f"/v1/episodes/{episode}/feedback", json=feedback)
        assert reply.is_success, reply.text
    return episode


async def unharmed(person: Person) -> None:
    assert await person.page.title() != "owned", person.page.url
    assert await person.page.locator("img[src=x], main b").count() == 0, person.page.url


async def test_words_of_people_never_become_markup(
    person: Person, console: ConsoleUnderTest
) -> None:
    async with console.http() as admin:
        for path, body in (
            ("/v1/tools", {"spec": TOOL}),
            ("/v1/policies", {"spec": POLICY}),
            ("/v1/api-keys", {"subject": HOSTILE[:60], "roles": ["developer"]}),
        ):
            reply = await admin.post(path, json=body)
            assert reply.is_success, reply.text
    episode = await rejected(console)
    await person.sign_in("tenant-admin")
    for path in (*PATHS, f"/episodes/{episode}"):
        await person.open(path)
        await person.page.locator("h1").first.wait_for()
        await person.page.locator(".skeleton").first.wait_for(state="detached")
        await unharmed(person)
        for tab in await person.page.get_by_role("tab").all():
            await tab.click()
            await unharmed(person)
    await person.sees("<img src=x")
