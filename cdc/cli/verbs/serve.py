"""`cdc serve`: the operator's page."""

from typing import Annotated

import typer

from cdc.cli import output
from cdc.cli.invocation import Invocation


def register(app: typer.Typer) -> None:
    app.command("serve")(serve)


def serve(
    context: typer.Context,
    host: Annotated[
        str, typer.Option(help="The address to listen at; another than loopback asks for a token.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="The port; 0 takes a free one.", min=0, max=65535)] = 8474,
    act: Annotated[bool, typer.Option("--act", help="Let the page act, for whoever has the token.")] = False,
    name: Annotated[list[str] | None, typer.Option(help="A further name by which browsers ask for it; repeat.")] = None,
    every: Annotated[float, typer.Option(help="Seconds between two looks.", min=0.5, max=60)] = 2.0,
) -> None:
    """Show the state of everything as a page, live, until Ctrl-C.

    It needs nothing of a running `cdc follow`, and looks at the parts once for all browsers. CDC_SERVE_TOKEN has the
    token, or each start makes a new one.
    """
    invocation = Invocation.read(context)
    from cdc.core.errors import ConfigurationError

    try:
        from cdc.serve.serve import ServeOptions
        from cdc.serve.serve import serve as run
    except ModuleNotFoundError as missing:
        remedy = "pip install 'cdc-toolkit[serve]'"
        raise ConfigurationError(f"the page needs {missing.name}, which is not installed", remedy) from None
    options = ServeOptions(host, port, every, act, tuple(name or ()), invocation.config)
    with invocation.open_pipeline() as pipeline:
        run(pipeline, options, output.say)
