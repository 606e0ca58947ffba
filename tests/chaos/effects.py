"""`python -m chaos.effects`: a service outside that does something, and writes down what it did.

The line is on disk before the answer is sent, so its log is the truth about effects.
"""

import argparse
import json
import os
from pathlib import Path

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route


def application(log: Path) -> Starlette:
    done = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    async def order(request: Request) -> Response:
        wanted = (await request.json())["order"]
        os.write(done, f"{json.dumps(wanted)}\n".encode())
        return JSONResponse({"placed": wanted})

    async def quote(request: Request) -> Response:
        return JSONResponse({"item": request.path_params["item"], "price": "3.50"})

    return Starlette(
        routes=[
            Route("/orders", order, methods=["POST"]),
            Route("/quotes/{item}", quote),
        ]
    )


def main() -> None:
    parser = argparse.ArgumentParser(prog="chaos.effects", description=__doc__)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--log", type=Path, required=True)
    given = parser.parse_args()
    uvicorn.run(application(given.log), port=given.port, log_level="critical", access_log=False)


if __name__ == "__main__":
    main()
