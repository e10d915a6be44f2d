"""Tool calls: from functions, models and descriptions to a constraint, and from an output to typed calls."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from constrain.errors import InvalidInputError, InvalidValueError
from constrain.grammar_spec import GrammarSpec, JsonForm
from constrain.reasoning.formats import HARMONY_CALLS, HARMONY_TOOLS
from constrain.reasoning.options import Reasoning
from constrain.schema import Constraint
from constrain.tags import Tag, tagged_text
from constrain.tools.formats import FORMATS, ToolFormat, format_of
from constrain.tools.reading import CallReader, Found
from constrain.tools.tool import Tool, as_tool
from constrain.vocabulary import Vocabulary

__all__ = ["FORMATS", "Tool", "ToolCall", "ToolFormat", "ToolOutput", "Tools"]


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One call.

    arguments:
        Validated: a dict for a function and for a description, an instance for a model.
    raw:
        The arguments as the model wrote them, in JSON.
    """

    name: str
    arguments: Any
    raw: str


@dataclass(frozen=True, slots=True)
class ToolOutput:
    """An output that may hold calls: the text before them, and the calls."""

    content: str
    calls: tuple[ToolCall, ...]


class Tools:
    """Tools that a model may or must call; a constraint for ``generate``, ``stream``, the processor and the rest.

    ::

        result = generate(model, messages, Tools([get_weather, Search], choice="required"))
        for call in result.unwrap():
            print(call.name, call.arguments)

    Parameters
    ----------
    tools:
        Functions (their arguments by name; never called here), pydantic models, or mappings as OpenAI's API has them.
    format:
        How the model writes calls: ``"hermes"`` (also Qwen), ``"llama3"``, ``"llama3-python-tag"``, ``"mistral"``,
        ``"mistral-args"``, ``"harmony"`` (gpt-oss), or a :class:`ToolFormat`.
    choice:
        ``"auto"``: free text, then calls if the model wants; the value is a :class:`ToolOutput`. ``"required"``: calls
        and nothing else. A name: the same, of that tool only. The value of these two is a list of :class:`ToolCall`.
    parallel:
        Whether several calls may stand in one output; never in ``harmony``, which has one.
    form:
        How the arguments are written; by default as ``json.dumps`` does, ``{"a": 1, "b": 2}``.

    Nothing follows the calls but a stop token. Raises ``InvalidInputError`` for an unknown format or choice and two
    tools of one name, and ``InvalidGrammarError`` that names the tool for one without a usable schema.
    """

    def __init__(
        self,
        tools: Sequence[Any],
        *,
        format: str | ToolFormat = "hermes",
        choice: str = "auto",
        parallel: bool = True,
        form: JsonForm | None = None,
    ) -> None:
        if not isinstance(tools, Sequence) or isinstance(tools, str) or not tools:
            raise InvalidInputError(f"tools={tools!r:.80}: want a list of at least one tool")
        if not isinstance(parallel, bool):
            raise InvalidInputError(f"parallel={parallel!r}: want True or False")
        if form is not None and not isinstance(form, JsonForm):
            raise InvalidInputError(f"form={form!r}: want JsonForm(...), or None")
        json_form = form or JsonForm("canonical")
        self.tools = tuple(as_tool(tool, number, json_form) for number, tool in enumerate(tools))
        self.format = format_of(format)
        self.choice = choice
        self.parallel = parallel
        self._by_name = {tool.name: tool for tool in self.tools}
        _check_names(self.tools, choice)
        self.grammar_spec = self._grammar_spec()
        self._reader = CallReader(self.format, list(self._by_name))

    def described(self) -> list[dict[str, Any]]:
        """The tools as a chat template takes them: ``tokenizer.apply_chat_template(..., tools=tools.described())``."""
        return [tool.described() for tool in self.tools]

    def parse(self, output: str | Sequence[int], vocabulary: Vocabulary | None = None) -> list[ToolCall]:
        """The calls of a complete output, validated; none if it holds none.

        ``output`` is a text in which special tokens are spelled out, or better the token ids with their vocabulary: a
        text that only looks like a special token is told apart then. Raises
        :class:`~constrain.errors.InvalidValueError` for calls that do not follow the format or whose arguments are
        invalid.
        """
        return list(self._typed(self._reader.read(output, vocabulary, is_complete=True)).calls)

    def split(self, output: str | Sequence[int], vocabulary: Vocabulary | None = None) -> ToolOutput:
        """What is certain of an output that may still grow: the text before the calls, and the calls that are complete.

        The end of the text is held back where it may begin a call. Raises as ``parse`` does where a marker is wrong or
        arguments are invalid; arguments that are not yet JSON are waited for.
        """
        return self._typed(self._reader.read(output, vocabulary, is_complete=False))

    def adapted(self, reasoning: Reasoning) -> Reasoning:
        """``reasoning`` before these tools; ``generate`` and ``stream`` do this by themselves.

        Where a format marks its text and its calls as it marks the end of thinking (harmony), these markers are
        content's. Elsewhere nothing changes; ``content_starts=("<tool_call>",)`` lets a call end thinking.
        """
        if self.format.name != "harmony" or reasoning.parser not in ("auto", "harmony", "gpt_oss"):
            return reasoning
        return replace(reasoning, parser=HARMONY_TOOLS if self.choice == "auto" else HARMONY_CALLS)

    def __constraint__(self) -> Constraint:
        """The constraint, for :func:`constrain.as_constraint`."""
        return Constraint(self.grammar_spec, _ToolsDecoder(self))

    def value(self, output: str | Sequence[int], vocabulary: Vocabulary | None = None) -> ToolOutput | list[ToolCall]:
        """What ``generate`` gives for a complete output; ``choice`` says which of the two."""
        found = self._typed(self._reader.read(output, vocabulary, is_complete=True), is_held=True)
        if self.choice == "auto":
            return found
        if found.content or not found.calls:
            raise InvalidValueError(f"want calls and nothing else, got {output!r:.200}")
        return list(found.calls)

    def _typed(self, found: Found, *, is_held: bool = False) -> ToolOutput:
        calls = []
        for name, raw in found.calls:
            try:
                calls.append(ToolCall(name, self._by_name[name].decode(raw), raw))
            except InvalidValueError as exc:
                if is_held:
                    raise InvalidValueError(f"the call of {name!r}: {exc}") from exc
                # The decoder speaks of a constraint that was not kept; here nobody says that one held.
                why = exc.__cause__ or "they do not follow its schema"
                raise InvalidValueError(f"the arguments of {name!r} are invalid: {why}: {raw:.200}") from exc
        return ToolOutput(found.content, tuple(calls))

    def _grammar_spec(self) -> GrammarSpec:
        form = self.format
        chosen = [tool for tool in self.tools if self.choice in ("auto", "required", tool.name)]
        tags = [
            Tag(_joined(form.before_name, tool.name, form.after_name), tool.grammar_spec, form.end) for tool in chosen
        ]
        is_marked = self.choice == "auto" and form.answer is not None
        if is_marked and form.answer is not None:
            tags.append(form.answer)
        return tagged_text(
            tags,
            triggers=[form.trigger],
            at_least_one=is_marked or self.choice != "auto",
            stop_after_first=True,
            opening=form.opening,
            separator=form.separator if self.parallel else None,
            closing=form.closing,
        )


@dataclass(frozen=True, slots=True)
class _ToolsDecoder:
    """Reads the tokens where it can have them: a text does not show special tokens."""

    tools: Tools

    def __call__(self, text: str) -> ToolOutput | list[ToolCall]:
        return self.tools.value(text)

    def decode_tokens(self, token_ids: Sequence[int], vocabulary: Vocabulary) -> ToolOutput | list[ToolCall]:
        return self.tools.value(token_ids, vocabulary)


def _joined(*markers: Any) -> Any:
    return tuple(
        part for marker in markers for part in (marker if isinstance(marker, tuple | list) else (marker,)) if part != ""
    )


def _check_names(tools: Sequence[Tool], choice: str) -> None:
    names = [tool.name for tool in tools]
    for name in names:
        if names.count(name) > 1:
            raise InvalidInputError(f"two tools are called {name!r}: a call would not say which; rename one")
        if name in ("auto", "required"):
            raise InvalidInputError(f"a tool is called {name!r}, which as a choice means something else; rename it")
    if choice not in ("auto", "required", *names):
        raise InvalidInputError(f"choice={choice!r}: want 'auto', 'required' or the name of a tool: {', '.join(names)}")
