import asyncio
import base64
import json
from collections import Counter
from pathlib import Path

from integration.podium_training.grpo.recorded import (
    GROUP_SIZE,
    Headers,
    make_headers,
    make_records,
    produce_values,
)
from integration.podium_training.grpo.test_runs import GROUPS_PER_STEP, finish, make_run, metrics_of
from podium.episodes.v1 import trajectory_pb2 as pb
from podium_kit.embedded.kafka import EmbeddedKafka
from podium_training.grpo.data.episodes import Reason
from unit.podium_training.grpo.builders import DIGEST, SCHEMA

OTHER_SCHEMA = "podium.episodes.v2.TrajectoryRecord"


def spoilt_episodes() -> dict[Reason, pb.Trajectory]:
    """One episode for each way in which its content can be wrong."""
    found = {
        reason: make_records(1)[0][1].trajectory
        for reason in (
            Reason.NO_CONSENT,
            Reason.BAD_LOGPROB,
            Reason.TOKEN_OUT_OF_RANGE,
            Reason.OTHER_TOKENIZER,
            Reason.UNKNOWN_CONSTRAINT,
            Reason.BROKEN_CONSTRAINT,
            Reason.MALFORMED,
        )
    }
    for reason, episode in found.items():
        episode.group_id, episode.episode_id = "bad", f"bad-{reason}"
    answers = {reason: each.turns[0].model_call.response for reason, each in found.items()}
    found[Reason.NO_CONSENT].training_consent = False
    answers[Reason.BAD_LOGPROB].completion_logprobs[0] = float("nan")
    answers[Reason.TOKEN_OUT_OF_RANGE].prompt_token_ids[0] = 1_000_000
    answers[Reason.OTHER_TOKENIZER].prompt_digest = "0" * 64
    answers[Reason.UNKNOWN_CONSTRAINT].constraint_digest = "0" * 64
    answers[Reason.BROKEN_CONSTRAINT].constraint_digest = DIGEST
    answers[Reason.BROKEN_CONSTRAINT].constraint_json_schema = SCHEMA
    # A poisoned reward.
    found[Reason.MALFORMED].outcomes[0].score = 300.0
    return found


def spoilt_records(whole: bytes) -> list[tuple[bytes, Headers]]:
    """Cut off, empty, changed after it was sent, and of another version of the contract."""
    return [
        (whole[:-5], make_headers(whole[:-5])),
        (b"", make_headers(b"")),
        (whole, make_headers(whole + b"changed")),
        (whole, make_headers(whole, OTHER_SCHEMA)),
    ]


async def test_unusable_records_are_counted_and_kept_and_block_nothing(
    kafka: EmbeddedKafka, tmp_path: Path
) -> None:
    episodes = [pb.TrajectoryRecord(trajectory=each) for each in spoilt_episodes().values()]
    bad = [(value, make_headers(value)) for value in map(_bytes, episodes)]
    records = make_records(GROUPS_PER_STEP)
    (key, first), *good = [(key, _bytes(record)) for key, record in records]
    bad += spoilt_records(first)
    values = [("bad", value, headers) for value, headers in bad]
    # What closes its group makes up for it.
    bad.append((first[:-5], make_headers(first)))
    values.append((key, *bad[-1]))
    values += [(key, value, make_headers(value)) for key, value in good]
    await kafka.create_topics({"poisoned": 1})
    await asyncio.to_thread(produce_values, kafka.bootstrap_servers, "poisoned", values)
    await finish(make_run(tmp_path / "run", kafka, "poisoned", steps=1))

    expected = Counter({**dict.fromkeys(spoilt_episodes(), 1), Reason.MALFORMED: 4})
    expected += Counter([Reason.WRONG_DIGEST, Reason.OTHER_SCHEMA])
    (metrics,) = metrics_of(tmp_path / "run")
    assert {name: metrics[f"rejected {name}"] for name in expected} == expected
    assert metrics["rows"] == GROUPS_PER_STEP * GROUP_SIZE - 1
    lines = (tmp_path / "run" / "run" / "rejected.jsonl").read_text().splitlines()
    aside = [json.loads(line) for line in lines]
    assert Counter(line["reason"] for line in aside) == expected
    unread = (b"", first[:-5])
    for line in aside:
        value = bad[line["offset"]][0]
        silent = value in unread or line["reason"] in (Reason.NO_CONSENT, Reason.OTHER_SCHEMA)
        assert line["record"] == (None if silent else base64.b64encode(value).decode())


def _bytes(record: pb.TrajectoryRecord) -> bytes:
    return record.SerializeToString()
