"""Podium's training jobs: tasks, rollouts, GRPO, the gate, demonstrations."""
