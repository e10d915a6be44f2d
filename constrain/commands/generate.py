"""``constrain generate``: a prompt in, the text of a validated value out."""

import argparse
import sys
import time
from collections.abc import Callable
from contextlib import redirect_stdout
from typing import Any

from constrain.commands.common import (
    add_command,
    add_constraint_arguments,
    constraint_from,
    exits,
    one_line,
    read_text,
    say_error,
)
from constrain.errors import ConstrainError, InvalidInputError, InvalidPromptError
from constrain.result import GenerationResult
from constrain.sampling.params import SamplingParams
from constrain.stream import Stream, stream

_EXAMPLES = """\
The text goes to standard output, all else to standard error. Without a constraint the text is free.

examples:
  constrain generate --schema user.schema.json --prompt "Invent a user."
  constrain generate --pydantic app.models:User --stream < letter.txt | jq .name
  constrain generate --regex '[A-Z]{2}-[0-9]{4}' --prompt "An order number:" --raw --temperature 0.7 --seed 1
  constrain generate --choice yes --choice no --prompt "Is the sky blue?" --model ./Qwen3-0.6B --device cuda
"""

_SAMPLING: tuple[tuple[str, Callable[[str], Any], str], ...] = (
    ("temperature", float, "0 is greedy"),
    ("top_k", int, "keep the K most probable tokens"),
    ("top_p", float, "keep the smallest set of tokens with this mass"),
    ("min_p", float, "keep tokens at least this many times as probable as the most probable"),
    ("repetition_penalty", float, "divides the logits of tokens in prompt and text"),
    ("presence_penalty", float, "taken from the logits of tokens in the text"),
    ("frequency_penalty", float, "the same for each time that they stand there"),
    ("max_tokens", int, "the most tokens to write"),
    ("min_tokens", int, "the fewest tokens before the end, where the constraint lets more stand"),
    ("seed", int, "repeats a run"),
)
_TEXTS = (
    ("stop", "--stop", "a text that ends free text where it first appears; give it for each"),
    ("bad_words", "--bad-word", "a text that must not be written; give it for each"),
)


def add_parser(subparsers: Any) -> None:
    """Describe the command."""
    parser = add_command(subparsers, "generate", "write a text that is exactly what was asked for", _EXAMPLES)
    add_constraint_arguments(parser, required=False)
    parser.add_argument("--prompt", metavar="TEXT", help="a message to the model (default: read standard input)")
    parser.add_argument("--raw", action="store_true", help="continue the prompt as it stands, without a chat template")
    parser.add_argument("--device", default="cpu", help="where a --model runs: cpu, cuda, cuda:1 (default: cpu)")
    parser.add_argument("--stream", action="store_true", help="write the text as it grows")
    parser.add_argument("--quiet", action="store_true", help="report errors only")
    defaults = SamplingParams()
    sampling = parser.add_argument_group("sampling")
    for field, kind, meaning in _SAMPLING:
        default = getattr(defaults, field)
        shown = "a fresh one" if default is None else default
        option = "--" + field.replace("_", "-")
        sampling.add_argument(option, type=kind, default=default, metavar="N", help=f"{meaning} (default: {shown})")
    for field, option, meaning in _TEXTS:
        sampling.add_argument(option, dest=field, action="append", default=[], metavar="TEXT", help=meaning)
    parser.add_argument("--timeout", type=float, metavar="S", help="seconds after which to give up")
    parser.set_defaults(run=run)


@exits
def run(arguments: argparse.Namespace) -> int:
    """Generate; 0 where there is a value."""
    sampling = {name: getattr(arguments, name) for name, *_ in (*_SAMPLING, *_TEXTS)}
    SamplingParams(**sampling)  # what is wrong is said before the model is loaded
    if arguments.schema == "-" and arguments.prompt is None:
        raise InvalidInputError("the schema and the prompt cannot both come from standard input: give --prompt")
    constraint = constraint_from(arguments)
    prompt = _prompt(arguments)
    model, tokenizer = _load(arguments)
    chat = not arguments.raw and getattr(tokenizer, "chat_template", None) is not None
    events = stream(
        model,
        [{"role": "user", "content": prompt}] if chat else prompt,
        constraint,
        tokenizer=tokenizer,
        backend=arguments.backend,
        timeout_s=arguments.timeout,
        stable=arguments.stream,  # what is printed cannot be taken back
        **sampling,
    )
    with events:
        result = _read(events, arguments)
    return _finish(result, arguments)


def _prompt(arguments: argparse.Namespace) -> str:
    if arguments.prompt is None and sys.stdin.isatty():
        _note(arguments, "reading the prompt from standard input (end it with Ctrl-D) ...")
    prompt = read_text("-") if arguments.prompt is None else str(arguments.prompt)
    if not prompt.strip():
        where = "standard input" if arguments.prompt is None else "--prompt"
        raise InvalidPromptError(f"the prompt from {where} is empty")
    return prompt


def _load(arguments: argparse.Namespace) -> tuple[Any, Any]:
    from constrain.hf import load_packaged_model
    from constrain.hf.local import disable_progress_bars, load_model_from

    disable_progress_bars()
    _note(arguments, f"loading {arguments.model or 'SmolLM2-135M-Instruct (the first time takes half a minute)'} ...")
    with redirect_stdout(sys.stderr):
        return load_packaged_model() if arguments.model is None else load_model_from(arguments.model, arguments.device)


def _read(events: Stream, arguments: argparse.Namespace) -> GenerationResult:
    started, num_tokens = time.perf_counter(), 0
    show_progress = sys.stderr.isatty() and not arguments.quiet and not arguments.stream
    for event in events:
        num_tokens += len(event.token_ids)
        if arguments.stream:
            print(event.text, end="", flush=True)
        elif show_progress:
            print(f"\r{num_tokens} tokens", end="", file=sys.stderr, flush=True)
    seconds = time.perf_counter() - started
    if show_progress:
        print("\r", end="", file=sys.stderr)
    if arguments.stream:
        print()
    result = events.result()
    enforced = f", enforced by {result.backend}" if result.backend else ""
    rate = num_tokens / max(seconds, 1e-9)
    _note(arguments, f"{num_tokens} tokens in {seconds:.1f} s ({rate:.0f}/s), seed {result.seed}{enforced}")
    return result


def _finish(result: GenerationResult, arguments: argparse.Namespace) -> int:
    if result.ok:
        if not arguments.stream:
            print(result.text)
        return 0
    reasons = {
        "length": f"the text is not finished after {result.num_output_tokens} tokens; try a larger --max-tokens",
        "deadline": f"the text is not finished after {arguments.timeout} s",
    }
    after = f"; the text so far: {one_line(result.text)}"
    error = result.error or ConstrainError(reasons.get(result.finish_reason, result.finish_reason) + after)
    say_error(error, f"no value ({result.finish_reason})")
    return 1


def _note(arguments: argparse.Namespace, text: str) -> None:
    if not arguments.quiet:
        print(text, file=sys.stderr, flush=True)
