import json

from sdks.typescript_client import build, run

PACKED_BYTES_MAX = 300_000


async def test_what_a_healthy_platform_does_not_answer_is_handled() -> None:
    await build()
    await run("node", "--test", "test/client.test.mjs")


async def test_the_package_holds_the_client_alone() -> None:
    await build()
    # The script that packing runs prints before it.
    said = await run("npm", "pack", "--dry-run", "--json", "--ignore-scripts")
    (package,) = json.loads(said)
    names = {file["path"] for file in package["files"]}
    assert {"dist/index.js", "dist/index.d.ts", "package.json", "README.md"} <= names
    assert not {name for name in names if name.startswith(("src/", "test/", "node_modules/"))}
    assert package["size"] < PACKED_BYTES_MAX
    assert "dependencies" not in json.loads(await run("cat", "package.json"))
