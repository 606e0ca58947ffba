def enum_word(name: str, prefix: str) -> str:
    """ "turn limit" of ("STOP_REASON_TURN_LIMIT", "STOP_REASON_")."""
    return name.removeprefix(prefix).lower().replace("_", " ")
