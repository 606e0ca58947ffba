from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Group
from rich.markup import escape
from rich.text import Text

from podium.adapters.v1 import corpus_service_pb2 as pb
from podium_cli.command import Session, command
from podium_cli.corpus.uploads import batches, uploads
from podium_cli.formats import counted
from podium_cli.listing import listing
from podium_kit.client.errors import UsageError
from podium_kit.client.gateway import Gateway, segment

app = typer.Typer(
    name="corpus",
    help="Documents that tools search: add, list, search, delete.",
    no_args_is_help=True,
)

Name = Annotated[str, typer.Argument(help="Corpus name.", show_default=False)]


@command(app, "add")
async def add(
    session: Session,
    corpus: Name,
    files: Annotated[
        list[Path], typer.Argument(help="Files or folders: text, Markdown, HTML, PDF.", exists=True)
    ],
    url_prefix: Annotated[
        str, typer.Option(help="Put before a file's name, cited with every hit.")
    ] = "",
    shared: Annotated[
        bool, typer.Option("--shared", help="For every tenant; needs an admin key.")
    ] = False,
) -> None:
    """Add files, or replace those of the same names; unchanged ones cost nothing."""
    found = uploads(files)
    changed = passages = 0
    async with session.gateway(admin=shared) as gateway:
        for batch in batches(found):
            documents = [upload.document(url_prefix) for upload in batch]
            reply = await _put(gateway, corpus, documents, shared)
            changed, passages = changed + reply.changed_count, reply.passage_count
            for upload in batch:
                session.output.note(f"[dim]{escape(upload.document_id)}[/]")
    session.output.result(
        pb.PutDocumentsResponse(changed_count=changed, passage_count=passages),
        f"{changed} of {counted(len(found), 'document')} new or changed; "
        f"{corpus} has {counted(passages, 'passage')}",
    )


@command(app, "list")
async def list_corpora(
    session: Session,
    corpus: Annotated[str, typer.Argument(help="Corpus name; without it all corpora.")] = "",
) -> None:
    """List corpora, or the documents of one."""
    async with session.gateway() as gateway:
        if corpus:
            path = f"/v1/corpora/{segment(corpus)}/documents"
            found = await gateway.all(path, pb.ListDocumentsResponse)
            rows = [
                (each.id, each.media_type, str(each.passage_count), each.uri)
                for each in found.documents
            ]
            view = listing(("document", "kind", "passages#", "source"), rows)
            session.output.result(found, view)
        else:
            corpora = await gateway.all("/v1/corpora", pb.ListCorporaResponse)
            summaries = [_summary(each) for each in corpora.corpora]
            columns = ("corpus", "documents#", "passages#", "of")
            session.output.result(corpora, listing(columns, summaries))


@command(app, "search")
async def search(
    session: Session,
    corpus: Name,
    query: Annotated[str, typer.Argument(help="What to look for.", show_default=False)],
    limit: Annotated[int, typer.Option(min=1, max=50, help="Most passages.")] = 5,
) -> None:
    """Search a corpus; every passage names its place in the document."""
    async with session.gateway() as gateway:
        path = f"/v1/corpora/{segment(corpus)}/search"
        found = await gateway.get(path, pb.SearchResponse, query=query, top_k=limit)
    passages = [part for hit in found.hits for part in (_citation(hit), Text(hit.passage + "\n"))]
    session.output.result(found, Group(*passages) if passages else "nothing found")


@command(app, "delete")
async def delete(
    session: Session,
    corpus: Name,
    documents: Annotated[
        list[str] | None, typer.Argument(help="Document ids from `podium corpus list`.")
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="The whole corpus.")] = False,
) -> None:
    """Delete documents, or a whole corpus."""
    if bool(documents) == everything:
        raise UsageError("nothing says what to delete", "name documents, or give --all")
    path = f"/v1/corpora/{segment(corpus)}"
    async with session.gateway() as gateway:
        if everything:
            reply = await gateway.call("DELETE", path)
        else:
            reply = await gateway.call("DELETE", f"{path}/documents", query={"ids": documents})
    session.output.result(reply, f"{counted(reply['deleted_count'], 'document')} deleted")


async def _put(
    gateway: Gateway, corpus: str, documents: list[dict[str, Any]], shared: bool
) -> pb.PutDocumentsResponse:
    path = f"/v1/corpora/{segment(corpus)}/documents"
    body = {"documents": documents, "shared": shared}
    return await gateway.put(path, body, pb.PutDocumentsResponse)


def _summary(corpus: pb.Corpus) -> tuple[str, str, str, str]:
    owner = "everybody" if corpus.shared else "your tenant"
    return corpus.name, str(corpus.document_count), str(corpus.passage_count), owner


def _citation(hit: pb.Hit) -> Text:
    place = [hit.title, *([hit.section] if hit.section else [])]
    if hit.page:
        place.append(f"page {hit.page}")
    return Text(f"{' · '.join(place)} ({hit.uri or hit.document_id})", style="bold")
