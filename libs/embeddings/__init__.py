"""Vectors of meaning."""

from embeddings.client import EmbeddingsUnavailable, OpenAiEmbeddings, Vector

__all__ = ["EmbeddingsUnavailable", "OpenAiEmbeddings", "Vector"]
