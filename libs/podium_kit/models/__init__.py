"""Facts about models that services share: parameters, context lengths, embeddings."""
