from integration.bootstrap.namespace_server import NamespaceServer
from podium_operations.bootstrap.certificates import ensure_signing_keys
from podium_operations.bootstrap.cluster_objects import ClusterObjects


async def test_a_secret_is_made_once_and_only_missing_files_of_keys_are_added(
    namespace: NamespaceServer, objects: ClusterObjects
) -> None:
    assert await ensure_signing_keys(objects, "podium-identity")
    made = namespace.secret("podium-identity")
    assert not await ensure_signing_keys(objects, "podium-identity")
    assert namespace.secret("podium-identity") == made

    added = {"master-keys", "payload-keys"}
    earlier = {name: value for name, value in made.items() if name not in added}
    namespace.put_secret("earlier", earlier)
    assert await ensure_signing_keys(objects, "earlier") == [
        "key master-keys of Secret earlier",
        "key payload-keys of Secret earlier",
    ]
    found = namespace.secret("earlier")
    assert found.keys() == made.keys()
    assert {name: found[name] for name in earlier} == earlier

    namespace.put_secret("before-payloads", earlier | {"master-keys": made["master-keys"]})
    assert await ensure_signing_keys(objects, "before-payloads") == [
        "key payload-keys of Secret before-payloads"
    ]
    assert namespace.secret("before-payloads")["master-keys"] == made["master-keys"]
