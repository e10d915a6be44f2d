"""``constrain mask``: what may come next after a text."""

import argparse
import json
import sys
from contextlib import redirect_stdout
from dataclasses import dataclass
from typing import Any

from constrain.commands.common import add_command, add_constraint_arguments, constraint_from, exits, one_line
from constrain.errors import InvalidInputError
from constrain.grammar import Grammar
from constrain.vocabulary import Vocabulary

_EXAMPLES = """\
examples:
  constrain mask --schema user.schema.json --text '{"name": "Ann", '
  constrain mask --regex '[A-Z]{2}-[0-9]{4}' --text AB-12 --limit 5
  constrain mask --choice yes --choice no --text '' --json --model ./Qwen3-0.6B
"""


@dataclass(frozen=True, slots=True)
class NextTokens:
    """What a constraint allows after the longest legal part of a text."""

    num_legal_bytes: int
    """How much of the text is legal; all of it, or up to where it leaves the constraint."""
    token_ids: tuple[int, ...]
    """The tokens that may come next, stop tokens aside."""
    may_end: bool
    forced: str
    """Text that must come next."""


def add_parser(subparsers: Any) -> None:
    """Describe the command."""
    parser = add_command(subparsers, "mask", "show what is legal after a text", _EXAMPLES)
    add_constraint_arguments(parser, required=True)
    parser.add_argument("--text", required=True, metavar="PREFIX", help="the output so far; may be empty")
    parser.add_argument("--limit", type=int, default=20, metavar="N", help="list at most N tokens (default: 20)")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(run=run)


@exits
def run(arguments: argparse.Namespace) -> int:
    """Show the mask; 0 where the text is legal and can go on or end."""
    from constrain.backends import make_backend
    from constrain.schema import as_grammar_spec

    if arguments.limit < 0:
        raise InvalidInputError(f"--limit {arguments.limit}: want 0 or more")
    grammar_spec = as_grammar_spec(constraint_from(arguments))
    vocabulary = _load(arguments.model)
    compiled = make_backend(arguments.backend, vocabulary).compile(grammar_spec)
    found = next_tokens(compiled.start(), vocabulary, arguments.text.encode())
    report = _report(found, vocabulary, arguments, compiled.backend_name)
    if arguments.json:
        print(json.dumps(report, indent=2, ensure_ascii=False))
    else:
        print(_as_text(report))
    return 0 if report["legal"] and (found.token_ids or found.may_end) else 1


def next_tokens(grammar: Grammar, vocabulary: Vocabulary, text: bytes) -> NextTokens:
    """Advance ``grammar`` over the longest legal part of ``text``, and read its mask there."""
    from constrain.bitmask import TokenBitmask

    at = _advance(grammar, vocabulary, text)
    bitmask = TokenBitmask(1, vocabulary, "cpu").next_buffer()
    grammar.fill_bitmask(bitmask, 0)
    words = bitmask[0].tolist()
    legal = [i for i in range(vocabulary.size) if words[i // 32] >> i % 32 & 1]
    stops = set(vocabulary.stop_token_ids)
    return NextTokens(
        num_legal_bytes=at,
        token_ids=tuple(i for i in legal if i not in stops),
        may_end=not stops.isdisjoint(legal),
        forced=_shown(vocabulary.decode(grammar.forced_tokens())),
    )


def _advance(grammar: Grammar, vocabulary: Vocabulary, text: bytes) -> int:
    """How many bytes of ``text`` are legal. A grammar's state depends on the bytes, not on how they were cut."""
    by_bytes = {token: i for i, token in enumerate(vocabulary.token_bytes) if token}
    longest, at = max(map(len, by_bytes)), 0
    while at < len(text):
        for end in range(min(at + longest, len(text)), at, -1):
            token_id = by_bytes.get(text[at:end])
            if token_id is not None and grammar.accept([token_id]):
                at = end
                break
        else:
            break
    return at


def _load(folder: str | None) -> Vocabulary:
    from constrain.hf.local import load_vocabulary_from
    from constrain.hf.tokenizer import load_packaged_tokenizer

    with redirect_stdout(sys.stderr):
        if folder is None:
            return Vocabulary.from_tokenizer(load_packaged_tokenizer())
        return load_vocabulary_from(folder)


def _report(found: NextTokens, vocabulary: Vocabulary, arguments: argparse.Namespace, backend: str) -> dict[str, Any]:
    text = arguments.text
    num_legal = len(text.encode()[: found.num_legal_bytes].decode(errors="ignore"))
    return {
        "text": text,
        "legal": found.num_legal_bytes == len(text.encode()),
        "num_legal_characters": num_legal,
        "may_end": found.may_end,
        "forced": found.forced,
        "num_tokens": len(found.token_ids),
        "tokens": [_token(i, vocabulary) for i in found.token_ids[: arguments.limit]],
        "backend": backend,
    }


def _token(token_id: int, vocabulary: Vocabulary) -> dict[str, Any]:
    written = vocabulary.token_bytes[token_id]
    try:
        return {"id": token_id, "text": written.decode()}
    except UnicodeDecodeError:  # a part of a character
        return {"id": token_id, "text": _shown(written), "bytes": written.hex()}


def _as_text(report: dict[str, Any]) -> str:
    text, offset = report["text"], report["num_legal_characters"]
    lines = [f"legal: {one_line(text)} (backend {report['backend']})"]
    if not report["legal"]:
        before, after = one_line(text[:offset], 40), repr(text[offset : offset + 20])
        lines = [f"not legal: leaves the constraint at character {offset}: behind {before} comes {after}"]
        lines += ["what is legal there:"]
    lines += [f"may end: {'yes' if report['may_end'] else 'no'}"]
    if report["forced"]:
        lines += [f"forced: {report['forced']!r}"]
    lines += [f"tokens: {report['num_tokens']}" + (" (a dead end)" if _is_dead(report) else "")]
    lines += [f"{token['id']:>8}  {_spelled(token)}" for token in report["tokens"]]
    left_out = report["num_tokens"] - len(report["tokens"])
    return "\n".join([*lines, f"     ...  {left_out} more"] if left_out else lines)


def _is_dead(report: dict[str, Any]) -> bool:
    return not report["num_tokens"] and not report["may_end"]


def _spelled(token: dict[str, Any]) -> str:
    return f"bytes {token['bytes']}" if "bytes" in token else repr(token["text"])


def _shown(written: bytes) -> str:
    return written.decode(errors="replace")
