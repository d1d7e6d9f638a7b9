"""TensorBoard as a session: `python3 board.py SOCKET`, over the folder that the job begins in.

By itself it listens on a port, which every job of the node could open. It runs in the job's own
environment, which has to have it; nothing of the agent's is there.
"""

from __future__ import annotations

import os
import sys
from typing import Any

_MISSING = """\
session: the Python of this job, {python}, has no TensorBoard ({problem}).
Install it there (pip install tensorboard), or start the session where it is installed.
"""


def main() -> None:
    """Serve until the session ends."""
    try:
        # None of ours: what the job's environment has.
        from tensorboard import program
        from werkzeug.serving import WSGIRequestHandler, make_server
    except ImportError as problem:
        sys.exit(_MISSING.format(python=sys.executable, problem=problem))

    class Handler(WSGIRequestHandler):  # type: ignore[misc, unused-ignore]
        def log_request(self, *told: object) -> None:
            """Say nothing: an open page asks every half minute, and all goes into the log."""

    class OnSocket(program.TensorBoardServer):  # type: ignore[misc, unused-ignore]
        def __init__(self, wsgi_app: Any, flags: Any) -> None:
            place = f"unix://{sys.argv[1]}"
            self._server = make_server(place, 0, wsgi_app, True, request_handler=Handler)

        def serve_forever(self) -> None:
            self._server.serve_forever()

        def get_url(self) -> str:
            # It notes the port of this in a file beside those of others.
            return f"http://localhost:0{path}"

        def print_serving_message(self) -> None:
            print(f"TensorBoard serves {os.getcwd()} below {path}", file=sys.stderr, flush=True)

    path = os.environ["TRAINYARD_SESSION_PATH"]
    board = program.TensorBoard(server_class=OnSocket)
    # Its faster reader is a second program that listens on a port.
    seen = f"--logdir={os.getcwd()}"
    board.configure(["tensorboard", seen, f"--path_prefix={path.rstrip('/')}", "--load_fast=false"])
    sys.exit(board.main())


if __name__ == "__main__":
    main()
