"""Numbers, dates and notation as people write them."""
