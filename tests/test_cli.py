"""The command line: its help, and what runs it."""

import subprocess
import sys

import pytest

from constrain.cli import main


@pytest.mark.parametrize("command", [[], ["check"], ["conformance"]])
def test_help_has_examples_and_exit_codes(capsys, command):
    with pytest.raises(SystemExit) as caught:
        main([*command, "--help"])
    printed = capsys.readouterr().out
    assert caught.value.code == 0 and "exit codes:" in printed
    assert not command or f"constrain {command[0]} " in printed.split("examples:")[1]


def test_the_module_runs():
    done = subprocess.run([sys.executable, "-m", "constrain", "check", "absent"], capture_output=True, text=True)
    assert done.returncode == 2 and "absent" in done.stderr
