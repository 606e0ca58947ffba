"""A policy folder and a topic of recorded episodes, as a run of rollouts leaves them."""

import hashlib
import random
from pathlib import Path

from kafka import KafkaProducer

from podium.episodes.v1 import trajectory_pb2 as pb
from podium_training.grpo.data.envelopes import SCHEMA
from unit.podium_training.grpo.builders import (
    VOCABULARY,
    make_model,
    make_response,
    make_tokenizer,
    make_trajectory,
)

GROUP_SIZE = 4
TOKEN_LOGPROB = -4.0
CHAT_TEMPLATE = "{% for message in messages %}{{ message.content }}{% endfor %}"
Headers = list[tuple[str, bytes]]
Records = list[tuple[str, pb.TrajectoryRecord]]


def write_policy(folder: Path) -> Path:
    tokenizer = make_tokenizer()
    tokenizer.chat_template = CHAT_TEMPLATE
    make_model(vocabulary=len(tokenizer)).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def make_records(groups: int, seed: int = 0) -> Records:
    """Group id and record: members of several groups in turn, then what closes each."""
    draw = random.Random(seed)
    members = [
        (f"g{group}", _member(draw, group, index))
        for index in range(GROUP_SIZE)
        for group in range(groups)
    ]
    return [*members, *(_closing(f"g{group}") for group in range(groups))]


def _closing(group_id: str) -> tuple[str, pb.TrajectoryRecord]:
    closed = pb.GroupClosed(group_id=group_id, tenant="acme")
    return group_id, pb.TrajectoryRecord(group_closed=closed)


def _member(draw: random.Random, group: int, index: int) -> pb.TrajectoryRecord:
    prompt = [3 + (group * 7 + place) % (VOCABULARY - 3) for place in range(12)]
    completion = [draw.randrange(3, VOCABULARY) for _ in range(draw.randint(2, 6))]
    response = make_response(
        prompt_token_ids=prompt,
        completion_token_ids=completion,
        completion_logprobs=[TOKEN_LOGPROB] * len(completion),
        constraint_digest="",
        constraint_json_schema="",
    )
    trajectory = make_trajectory(
        f"g{group}-{index}",
        solved=(group + index) % 2 == 0,
        response=response,
        group_id=f"g{group}",
        group_size=GROUP_SIZE,
        sample_index=index,
    )
    return pb.TrajectoryRecord(trajectory=trajectory)


def make_headers(value: bytes, schema: str = SCHEMA) -> Headers:
    digest = hashlib.sha256(value).hexdigest()
    return [("digest", digest.encode()), ("schema", schema.encode())]


def produce(bootstrap: str, topic: str, records: Records) -> None:
    """Puts records on a topic, each group on one partition."""
    values = [(key, record.SerializeToString()) for key, record in records]
    produce_values(bootstrap, topic, [(key, value, make_headers(value)) for key, value in values])


def produce_values(bootstrap: str, topic: str, values: list[tuple[str, bytes, Headers]]) -> None:
    """Puts on a topic whatever it is told, right or wrong."""
    producer = KafkaProducer(bootstrap_servers=bootstrap, acks="all")
    for key, value, headers in values:
        producer.send(topic, key=key.encode(), value=value, headers=headers)
    producer.flush(30)
    producer.close(5)
