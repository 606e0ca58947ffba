"""Supervised fine-tuning on demonstrations: what a policy knows before GRPO."""
