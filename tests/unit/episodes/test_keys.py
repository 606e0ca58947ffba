import uuid

from episodes.keys import child_episode_id, fairness_key

PARENT = "01890af1-7a2b-7c3d-8e4f-5a6b7c8d9e0f"


def test_a_child_has_its_parents_time_and_the_version_that_no_caller_may_choose() -> None:
    child = uuid.UUID(child_episode_id(PARENT, f"{PARENT}/1/tool/0"))
    assert (child.version, child.variant) == (8, uuid.RFC_4122)
    assert child.int >> 80 == uuid.UUID(PARENT).int >> 80


def test_a_call_names_one_child_and_every_call_another() -> None:
    keys = [f"{PARENT}/{turn}/tool/{index}" for turn in range(1, 50) for index in range(20)]
    children = [child_episode_id(PARENT, key) for key in keys]
    assert children == [child_episode_id(PARENT, key) for key in keys]
    assert len(set(children)) == len(keys)
    assert PARENT not in children


def test_tenants_that_begin_alike_have_queues_of_their_own() -> None:
    tenants = ["bank", "b" * 63, "b" * 64, "b" * 64 + "c", "b" * 64 + "d"]
    keys = [fairness_key(tenant) for tenant in tenants]
    assert keys[:2] == tenants[:2] and len(set(keys)) == len(tenants)
    assert max(map(len, keys)) <= 64
