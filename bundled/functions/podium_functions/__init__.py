"""The bundled functions: plain typed Python that answers real questions offline."""
