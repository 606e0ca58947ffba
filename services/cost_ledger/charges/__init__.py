"""Costs and corrections with the parts they are made of, and exports of them."""
