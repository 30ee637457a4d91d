"""`tideflow proxy`: a way to a cluster with TLS for clients that speak none."""

from __future__ import annotations

import click

from tideflow.cli.problems import told_to_user
from tideflow.cli.serve import stopped_by_signals
from tideflow.cli.settings import set_option, settings_from, tls_options, with_tls
from tideflow.platform import waits
from tideflow.platform.settings import using
from tideflow.runtime.loop import run_sync
from tideflow.transport import Proxy


@click.command(
    short_help="Lead clients without TLS to a server with it.",
    params=[set_option(), *tls_options()],
)
@click.argument("target", metavar="TARGET")
@click.option(
    "--listen",
    default="127.0.0.1:0",
    show_default=True,
    metavar="ADDRESS",
    help="Where on this host: HOST:PORT on loopback, or unix:PATH for a socket of this user.",
)
def proxy(target: str, listen: str, words: tuple[str, ...], **identity: str | None) -> None:
    """Forward connections of this user, on this host, to a server beyond by mutual TLS.

    TARGET is the address of a task, grpc://host:port or host:port. To it, whoever connects here is
    the client that the certificate names. So sessions of an unmodified TensorFlow reach a cluster
    that answers nobody without certificates.

    \b
    Examples:
      tideflow proxy host1:2222 --tls certs
      tideflow proxy host1:2222 --tls certs --listen 127.0.0.1:2222

    \b
    Exit codes:
      0  stopped by Ctrl-C or SIGTERM
      1  it could not listen there
      2  the command line, the certificates or a setting are wrong
    """
    settings = with_tls(settings_from(words), **identity)
    target = target.removeprefix("grpc://")
    with using(settings), stopped_by_signals() as stop:
        with told_to_user("Give --listen another address, and HOST:PORT of a task."):
            made = Proxy(listen, target, settings)
            run_sync(made.start())
        try:
            scheme = "" if made.address.startswith("unix:") else "grpc://"
            click.echo(f"{scheme}{made.address} leads to {target} and is ready")
            waits.until(stop.wait)
        finally:
            run_sync(made.stop())
