from typing import Any

import yaml
from yaml.constructor import ConstructorError, SafeConstructor
from yaml.resolver import Resolver

# In C where PyYAML has it, and many times as fast. Text that is nested deeper than its stack ends
# the process, so a stranger's is measured before.
FastSafeLoader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
# The tags of YAML that JSON has values for; any other is an error, such as !!binary.
KINDS = ("null", "bool", "int", "float", "str", "seq", "map")
SHOWN_CHARACTERS_MAX = 40


class JsonValues(SafeConstructor, Resolver):
    """Has a SafeLoader, named after it as a base, make what JSON has; a date stays its text.

    What cannot be read is a YAMLError that names its place.
    """

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        try:
            made = super().construct_object(node, deep)
            if isinstance(made, int):
                str(made)  # raises for one in hexadecimal that is too long to be written
            return made
        except (ValueError, LookupError) as error:
            # Such as 0x_, or an integer of 5,000 digits.
            value = str(node.value)[:SHOWN_CHARACTERS_MAX]
            problem = f"{value!r} cannot be read as {node.tag.rpartition(':')[2]}; quote it"
            raise ConstructorError(None, None, problem, node.start_mark) from error


JsonValues.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if not tag.endswith(":timestamp")]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
JsonValues.yaml_constructors = {
    tag: constructor
    for tag, constructor in yaml.SafeLoader.yaml_constructors.items()
    if tag is None or tag.rpartition(":")[2] in KINDS
}
