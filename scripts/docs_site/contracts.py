import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from google.protobuf import descriptor_pb2 as pb
from scripts.docs_site.markdown import prose, table

from gateway.rest.routes import ROUTES
from podium.common.v1 import access_pb2


def contract_pages() -> Iterator[tuple[str, str]]:
    packages: dict[str, list[pb.FileDescriptorProto]] = {}
    for file in descriptors().file:
        packages.setdefault(file.package, []).append(file)
    homes = {f".{name}.{each.name}": name for name in packages for each in types(packages[name])}
    for package, files in packages.items():
        parts = [f"# {package}\n\n", f"Import path: `{package.replace('.', '/')}`.\n\n"]
        for draw in (service_parts, message_parts, enum_parts):
            for file in sorted(files, key=lambda each: each.name):
                parts += draw(file, homes)
        yield f"reference/grpc/{package}.md", "".join(parts)


def descriptors() -> pb.FileDescriptorSet:
    """All contracts with their comments. Importing access_pb2 made its options readable."""
    assert access_pb2.scope
    with tempfile.NamedTemporaryFile() as output:
        protos = sorted(str(each) for each in Path("protos/podium").rglob("*.proto"))
        command = ["-m", "grpc_tools.protoc", "-I", "protos", "--include_source_info"]
        command += [f"--descriptor_set_out={output.name}", *protos]
        subprocess.run([sys.executable, *command], check=True)
        return pb.FileDescriptorSet.FromString(Path(output.name).read_bytes())


def types(files: list[pb.FileDescriptorProto]) -> Iterator[Any]:
    for file in files:
        yield from (*file.message_type, *file.enum_type)


def comment(file: pb.FileDescriptorProto, *path: int) -> str:
    for location in file.source_code_info.location:
        if tuple(location.path) == path:
            lines = location.leading_comments.strip().splitlines()
            return prose("\n".join(line.strip() for line in lines))
    return ""


def service_parts(file: pb.FileDescriptorProto, homes: dict[str, str]) -> Iterator[str]:
    for number, service in enumerate(file.service):
        yield f"## {service.name}\n\n{comment(file, 6, number)}\n\n"
        for index, rpc in enumerate(service.method):
            stream = "stream of " if rpc.server_streaming else ""
            scopes = rpc.options.Extensions[access_pb2.scope]
            yield f"### {rpc.name} {{#{service.name}.{rpc.name}}}\n\n"
            yield f"{comment(file, 6, number, 2, index)}\n\n"
            yield f"{reference(rpc.input_type, homes)} → {stream}"
            yield reference(rpc.output_type, homes)
            yield f"  \nScopes: {' or '.join(f'`{each}`' for each in scopes)}"
            audited = rpc.options.Extensions[access_pb2.administrative]
            yield ". Kept in the audit log.\n\n" if audited else ".\n\n"


def message_parts(file: pb.FileDescriptorProto, homes: dict[str, str]) -> Iterator[str]:
    for number, message in enumerate(file.message_type):
        maps = {each.name: each.field for each in message.nested_type if each.options.map_entry}
        rows = [
            (
                f"`{field.name}`",
                field_type(field, maps, homes),
                comment(file, 4, number, 2, index) + choice(message, field),
            )
            for index, field in enumerate(message.field)
        ]
        yield f"## {message.name}\n\n{comment(file, 4, number)}\n\n"
        yield table("Field, Type, Meaning", rows) if rows else "No fields.\n\n"


def choice(message: pb.DescriptorProto, field: pb.FieldDescriptorProto) -> str:
    """Returns the oneof of a field; an optional field is alone in an unnamed one."""
    if not field.HasField("oneof_index") or field.proto3_optional:
        return ""
    return f" One of `{message.oneof_decl[field.oneof_index].name}`."


def field_type(field: pb.FieldDescriptorProto, maps: dict[str, Any], homes: dict[str, str]) -> str:
    if (entry := maps.get(field.type_name.rpartition(".")[2])) is not None:
        return f"map of {scalar(entry[0], homes)} to {scalar(entry[1], homes)}"
    many = "list of " if field.label == field.LABEL_REPEATED else ""
    return many + scalar(field, homes) + (" (optional)" if field.proto3_optional else "")


def scalar(field: pb.FieldDescriptorProto, homes: dict[str, str]) -> str:
    if field.type_name:
        return reference(field.type_name, homes)
    return pb.FieldDescriptorProto.Type.Name(field.type).removeprefix("TYPE_").lower()


def reference(type_name: str, homes: dict[str, str]) -> str:
    name = type_name.rpartition(".")[2]
    home = homes.get(type_name)
    return f"[{name}]({home}.md#{name.lower()})" if home else type_name.lstrip(".")


def enum_parts(file: pb.FileDescriptorProto, _homes: dict[str, str]) -> Iterator[str]:
    for number, enum in enumerate(file.enum_type):
        rows = [
            (f"`{value.name}`", str(value.number), comment(file, 5, number, 2, index))
            for index, value in enumerate(enum.value)
        ]
        yield f"## {enum.name}\n\n{comment(file, 5, number)}\n\n"
        yield table("Value, Number, Meaning", rows)


def rest_page() -> Iterator[tuple[str, str]]:
    rows = []
    for route in ROUTES:
        package, _, service = route.service.rpartition(".")
        link = f"[{service}.{route.rpc}](grpc/{package}.md#{service}.{route.rpc})"
        rows.append((f"`{route.method}`", f"`{route.path}`", link))
    text = (
        "# REST\n\nEach route is one RPC. Path parameters and the query or the JSON body fill the "
        "request message; the reply is the response message. The gateway serves the OpenAPI "
        "document at `/openapi.json`.\n\n"
    )
    yield "reference/rest.md", text + table("Method, Path, RPC", rows)
