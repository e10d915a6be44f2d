"""How models write tool calls."""

from dataclasses import dataclass

from constrain.errors import InvalidInputError
from constrain.tags import Marker, Special, Tag


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolFormat:
    """How a model writes a call, and several of them.

    A call is ``before_name``, the tool's name, ``after_name``, the arguments as a JSON object, ``end``. One or more
    calls, with ``separator`` between them, stand between ``opening`` and ``closing``, and end the output. A special
    token is named by ``Special``; where a model's vocabulary has no such special token, its characters are written.

    trigger:
        What the calls begin with; free text before them cannot hold it.
    separator:
        None where the format has one call in an output.
    answer:
        Where a format marks its free text, too: the tag of an output without calls.
    """

    name: str
    trigger: str | Special
    before_name: Marker
    after_name: Marker
    end: Marker = ""
    opening: Marker = ""
    separator: Marker | None = None
    closing: Marker = ""
    answer: Tag | None = None


_FORMATS = (
    # Hermes 2 Pro, Qwen 2.5 and 3: <tool_call>\n{"name": ..., "arguments": {...}}\n</tool_call>
    ToolFormat(
        name="hermes",
        trigger=Special("<tool_call>"),
        before_name=(Special("<tool_call>"), '\n{"name": "'),
        after_name='", "arguments": ',
        end=("}\n", Special("</tool_call>")),
        separator="\n",
    ),
    # Llama 3.1 to 3.3: {"name": ..., "parameters": {...}}
    ToolFormat(
        name="llama3",
        trigger='{"name": "',
        before_name='{"name": "',
        after_name='", "parameters": ',
        end="}",
        separator="; ",
    ),
    # The same behind the token that Llama 3.1 writes before the calls of built-in tools.
    ToolFormat(
        name="llama3-python-tag",
        trigger=Special("<|python_tag|>"),
        opening=Special("<|python_tag|>"),
        before_name='{"name": "',
        after_name='", "parameters": ',
        end="}",
        separator="; ",
    ),
    # Mistral, tokenizers v3 and v7: [TOOL_CALLS][{"name": ..., "arguments": {...}}, {...}]
    ToolFormat(
        name="mistral",
        trigger=Special("[TOOL_CALLS]"),
        opening=(Special("[TOOL_CALLS]"), "["),
        before_name='{"name": "',
        after_name='", "arguments": ',
        end="}",
        separator=", ",
        closing="]",
    ),
    # Mistral, tokenizer v13: [TOOL_CALLS]name[ARGS]{...}[TOOL_CALLS]name[ARGS]{...}
    ToolFormat(
        name="mistral-args",
        trigger=Special("[TOOL_CALLS]"),
        before_name=Special("[TOOL_CALLS]"),
        after_name=Special("[ARGS]"),
        separator="",
    ),
    # gpt-oss: <|channel|>commentary to=functions.name <|constrain|>json<|message|>{...}<|call|>, one call in a turn.
    ToolFormat(
        name="harmony",
        trigger=Special("<|channel|>"),
        before_name=(Special("<|channel|>"), "commentary to=functions."),
        after_name=(" ", Special("<|constrain|>"), "json", Special("<|message|>")),
        end=Special("<|call|>"),
        answer=Tag((Special("<|channel|>"), "final", Special("<|message|>")), None, Special("<|return|>")),
    ),
)

FORMATS = {each.name: each for each in _FORMATS}


def format_of(wanted: str | ToolFormat) -> ToolFormat:
    """The format of that name; a format is itself. Raises ``InvalidInputError`` for an unknown name."""
    if isinstance(wanted, ToolFormat):
        return wanted
    if not isinstance(wanted, str) or wanted not in FORMATS:
        raise InvalidInputError(f"format={wanted!r}: want a ToolFormat or one of {', '.join(FORMATS)}")
    return FORMATS[wanted]
