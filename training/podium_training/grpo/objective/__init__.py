"""Rewards, advantages and losses: pure functions of tensors and episodes."""
