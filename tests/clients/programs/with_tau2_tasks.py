"""Prints the first tasks of a domain of tau2 as JSON lines: the user's side and golden actions.

Runs in tau2's own environment: `python with_tau2_tasks.py DOMAIN COUNT`.
"""

import json
import sys

from tau2.run import load_tasks

domain, count = sys.argv[1], int(sys.argv[2])
for task in load_tasks(domain)[:count]:
    criteria = task.evaluation_criteria
    row = {
        "id": task.id,
        "scenario": str(task.user_scenario),
        "actions": [{"tool": each.name, "arguments": each.arguments} for each in criteria.actions],
        "communicate": criteria.communicate_info or [],
    }
    print(json.dumps(row))
