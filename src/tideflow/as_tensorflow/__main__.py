"""Run a program that was written for TensorFlow: python -m tideflow.as_tensorflow SCRIPT."""

from __future__ import annotations

import os
import runpy
import sys
from pathlib import Path
from typing import NamedTuple

import click

from tideflow.as_tensorflow.finder import install
from tideflow.cli.problems import UsageProblem


class _Program(NamedTuple):
    script: str
    args: tuple[str, ...]
    as_module: bool


@click.command(
    context_settings={
        "help_option_names": ["-h", "--help"],
        "ignore_unknown_options": True,
        "allow_interspersed_args": False,
    }
)
@click.option("-m", "as_module", is_flag=True, help="SCRIPT is a module's name, as with python -m.")
@click.argument("script", metavar="SCRIPT")
@click.argument("args", nargs=-1, type=click.UNPROCESSED, metavar="[ARGS]...")
def _command(script: str, args: tuple[str, ...], as_module: bool) -> _Program:
    """Run SCRIPT with ARGS, as python would, where `import tensorflow` gives tideflow.

    \b
    Examples:
      python -m tideflow.as_tensorflow train.py --steps 100
      python -m tideflow.as_tensorflow -m package.train

    \b
    Exit codes:
      2    the command line is wrong
      N    the script's own
    """
    if not as_module and not Path(script).is_file():
        raise UsageProblem(
            f"there is no script {script!r} in {os.getcwd()}",
            "Give the path of a Python file; for a module, add -m.",
        )
    return _Program(script, args, as_module)


def main() -> None:
    """Run the program of the command line in this process."""
    try:
        program = _command.main(prog_name="python -m tideflow.as_tensorflow", standalone_mode=False)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    if not isinstance(program, _Program):
        # The help was asked for.
        return
    install()
    sys.argv[:] = [program.script, *program.args]
    if program.as_module:
        sys.path[0] = os.getcwd()
        runpy.run_module(program.script, run_name="__main__", alter_sys=True)
    else:
        sys.path[0] = str(Path(program.script).resolve().parent)
        runpy.run_path(program.script, run_name="__main__")


if __name__ == "__main__":
    main()
