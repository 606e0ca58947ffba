"""inspect_ai reads the log in a folder, and writes the accuracy that it states to `read`."""

import sys
from pathlib import Path

from inspect_ai.log import list_eval_logs, read_eval_log

[info] = list_eval_logs(sys.argv[1])
log = read_eval_log(info)
assert log.status == "success" and log.results is not None and log.samples is not None
assert [sample.epoch for sample in log.samples] == [1, 2, 1]
assert [sample.error is None for sample in log.samples] == [True, True, False]
assert log.samples[0].target == "42" and log.samples[0].scores is not None
values = [sample.scores["podium"].as_float() for sample in log.samples if sample.scores]
[score] = log.results.scores
assert score.metrics["accuracy"].value == sum(values) / len(values)
Path("read").write_text(str(score.metrics["accuracy"].value))
