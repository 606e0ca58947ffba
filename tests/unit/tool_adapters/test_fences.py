import pytest

from podium_kit.text import unfenced


@pytest.mark.parametrize(
    ("written", "code"),
    [
        ("```python\n6 * 7\n```", "6 * 7"),
        (" \n```sql\nSELECT 1;\n\n  ```\n", "SELECT 1;"),
        ("`6 * 7`", "6 * 7"),
        ("print('```')", "print('```')"),
        ("```\nprint(1)\n``` and then", "```\nprint(1)\n``` and then"),
    ],
)
def test_a_fence_around_the_whole_text_is_taken_away(written: str, code: str) -> None:
    assert unfenced(written) == code


def test_a_fence_with_much_space_and_no_end_keeps_nobody_waiting() -> None:
    # A search of every end of the space would take hours.
    endless = "```\n" + "\n" * 1_000_000 + "x"
    assert unfenced(endless) == endless
