"""The `tideflow` command and what all its subcommands share."""

from __future__ import annotations

import click

import tideflow
from tideflow.cli.certs import certs
from tideflow.cli.demo import demo
from tideflow.cli.proxy import proxy
from tideflow.cli.run import run
from tideflow.cli.serve import serve
from tideflow.cli.settings import settings
from tideflow.cli.status import status


@click.group(
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Each command explains itself: tideflow COMMAND --help",
)
@click.version_option(tideflow.__version__, prog_name="tideflow")
def main() -> None:
    """Train on a cluster of processes, with TensorFlow's protocol and API.

    \b
    First steps:
      tideflow demo                                  see a cluster train, on this machine
      tideflow run train.py --ps 1 --workers 2       start a script as a cluster, on this machine
      tideflow serve --cluster c.json --job ps --task 0
                                                     be one task of a cluster
      tideflow status grpc://localhost:2222          look into a running cluster
      tideflow settings                              what can be set, and what it is
    """


main.add_command(demo)
main.add_command(serve)
main.add_command(run)
main.add_command(status)
main.add_command(settings)
main.add_command(certs)
main.add_command(proxy)
