"""Learns one decision, which tool to call first, without a platform: sampled in this process."""
