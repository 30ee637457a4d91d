"""`tideflow certs`: an authority and certificates for the tasks and clients of a cluster."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import click

from tideflow.cli.problems import Problem, UsageProblem, told_to_user
from tideflow.cluster import ClusterSpec
from tideflow.platform import clock
from tideflow.transport import split_host_port
from tideflow.transport.certificates import uri_of_task

_LOOPBACK = ("localhost", "127.0.0.1", "::1")
_ROLES = ("client", "reader")


@click.command(short_help="Make certificates for a cluster.")
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path, file_okay=False))
@click.option("--cluster", required=True, metavar="JSON|FILE", help="The cluster, as of serve.")
@click.option(
    "--days",
    type=click.FloatRange(min=0, min_open=True),
    default=30.0,
    show_default=True,
    help="For how long the certificates are good; the authority is for ten years.",
)
@click.option(
    "--host",
    "hosts",
    multiple=True,
    metavar="NAME",
    help="Another name or address of clients that are called back, as eager ones are.",
)
@click.option("--new-ca", is_flag=True, help="Sign by a new authority; the old stays trusted.")
def certs(folder: Path, cluster: str, days: float, hosts: tuple[str, ...], new_ca: bool) -> None:
    """Make an authority, and a certificate for each task of a cluster and for its clients.

    DIR gets a folder for each: worker-0, client, and reader, for who may look and not touch. What a
    host needs of them is copied there, and named by --tls or TIDEFLOW_TLS. ca-key.pem signs others:
    it stays where it is. Run again, it makes new certificates; servers take them up by themselves.

    \\b
    Examples:
      tideflow certs certs --cluster cluster.json
      tideflow certs certs --cluster cluster.json --days 7 --new-ca

    \\b
    Exit codes:
      0  the certificates were made
      1  they could not be made, such as where a file cannot be written
      2  the cluster or the command line is wrong
    """
    authority = _authority_module()
    with told_to_user("Give --cluster JSON, or a file with it.", UsageProblem):
        spec = ClusterSpec.from_json(cluster)
    with told_to_user("Look at the folder, or choose another one."):
        now = authority.now_utc(clock.wall_s())
        signer = authority.open_authority(folder, now, renew=new_ca)
        for job in spec.jobs:
            for index, address in spec.tasks(job).items():
                names = [split_host_port(address)[0], *_LOOPBACK]
                place = folder / f"{job}-{index}"
                authority.issue(signer, place, uri_of_task(job, index), names, now, days)
        for role in _ROLES:
            names = [*_LOOPBACK, *hosts]
            authority.issue(signer, folder / role, f"tideflow://{role}", names, now, days)
    count = sum(len(spec.tasks(job)) for job in spec.jobs)
    click.echo(
        f"{folder} has certificates for {count} tasks, clients and readers, for {days:g} days; "
        f"use them with --tls {folder} or TIDEFLOW_TLS={folder}"
    )


def _authority_module() -> Any:
    """Return the module that needs `cryptography`, which is an extra."""
    try:
        return importlib.import_module("tideflow.cli.authority")
    except ModuleNotFoundError as error:
        if not (error.name or "").startswith("cryptography"):
            raise
        raise Problem(
            "certificates need the library cryptography", "Run `pip install tideflow[tls]`."
        ) from None
