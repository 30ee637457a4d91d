"""`tideflow settings`: what can be set, what it is, and where that comes from."""

from __future__ import annotations

import dataclasses
import json
import os

import click
from rich import box
from rich.console import Console
from rich.table import Table

from tideflow.cli.problems import UsageProblem, told_to_user
from tideflow.platform.settings import DEFAULT, DescribedSetting, Settings
from tideflow.transport.credentials import find_files
from tideflow.transport.token import token_of

# Of output that no terminal limits: wide enough that variables stay in one piece.
_PLAIN_WIDTH = 160


def set_option() -> click.Option:
    """Return the option --set, which every command has that makes settings."""
    return click.Option(
        ["--set", "words"],
        multiple=True,
        metavar="NAME=VALUE",
        help="Set one of the settings that `tideflow settings` lists; may be given again.",
    )


def tls_options() -> list[click.Parameter]:
    """Return the options of who this process is, which every command has that calls or answers."""
    file = click.Path(exists=True, dir_okay=False)
    return [
        click.Option(
            ["--tls"],
            metavar="DIR",
            help="Mutual TLS with the certificates in a folder that `tideflow certs` made.",
        ),
        click.Option(["--cert"], type=file, help="The certificate, with its chain, as PEM."),
        click.Option(["--key"], type=file, help="Its key."),
        click.Option(["--ca"], type=file, help="The authorities that are trusted."),
        click.Option(
            ["--token-file"], type=file, help="The secret of the cluster, in place of certificates."
        ),
    ]


def with_tls(
    settings: Settings,
    *,
    tls: str | None,
    cert: str | None,
    key: str | None,
    ca: str | None,
    token_file: str | None,
) -> Settings:
    """Return settings, but for what the options of `tls_options` say.  Raises: UsageProblem."""
    if tls and (cert or key or ca):
        raise UsageProblem("--tls and --cert, --key, --ca say the same", "Give one or the other.")
    if (cert or key) and not (cert and key and ca):
        raise UsageProblem("--cert, --key and --ca belong together", "Give all three.")
    named = f"{cert or ''}:{key or ''}:{ca}" if ca else tls
    with told_to_user("Look at the files that --tls, --ca or --token-file name.", UsageProblem):
        if named:
            settings = settings.replace(tls=named)
            find_files(named)
        if token_file:
            settings = settings.replace(token_file=token_file)
        token_of(settings)
    return settings


def settings_from(words: tuple[str, ...]) -> Settings:
    """Return the settings of the environment, but for what --set says.

    Raises: UsageProblem for a variable or word that makes no sense.
    """
    with told_to_user("`tideflow settings --help` says how settings are written.", UsageProblem):
        return Settings.from_environment(os.environ).with_words(list(words))


@click.command(short_help="List all settings, with values and origins.", params=[set_option()])
@click.option("--json", "as_json", is_flag=True, help="Write JSON, for programs.")
def settings(words: tuple[str, ...], as_json: bool) -> None:
    """List what can be set: value, default, where the value comes from, and meaning.

    A setting is a variable of the environment, which each process reads once; an argument of
    tideflow serve; or a field of the Settings that a Server or Session is given. What comes later
    in this list stands before what comes earlier.

    \b
    Examples:
      tideflow settings
      tideflow settings --set peer=off --json

    \b
    Exit codes:
      0  the settings were listed
      2  a variable or an argument makes no sense
    """
    found = settings_from(words).described()
    if as_json:
        click.echo(json.dumps([dataclasses.asdict(one) for one in found], indent=2))
        return
    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = _PLAIN_WIDTH
    console.print(_table(found))


def _table(found: list[DescribedSetting]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for title in ("setting", "variable", "value", "default", "origin"):
        table.add_column(title, no_wrap=True)
    table.add_column("meaning")
    for one in found:
        style = None if one.origin == DEFAULT else "bold"
        table.add_row(
            one.name,
            one.variable,
            one.value or "(unset)",
            one.default or "(unset)",
            one.origin,
            one.meaning,
            style=style,
        )
    return table
