"""Makes tasks of a new domain with a language model, in the paper's steps."""
