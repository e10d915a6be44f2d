"""Tagged text: every backend against a matcher that is written from the definition alone."""

import random
import re

import pytest
import torch

from constrain.backends import make_backend
from constrain.errors import InvalidGrammarError, UnsupportedGrammarError
from constrain.grammar import Grammar
from constrain.grammar_spec import GrammarSpec, JsonForm, choice, ebnf, json_schema, lark, regex
from constrain.sampling.ops.bitmask import allowed_tokens
from constrain.tags import Special, Tag, read_tagged_text, tagged_text
from constrain.vocabulary import Vocabulary

CALL, END, STOP = 1, 2, 0
_TEXT = [bytes([byte]) for byte in b'abcxy<>/[],{}":.1 '] + [b"<a", b"<a>", b"a>b", b"</", b"x<", b"],", b"b<a>a"]
TOKENS = [b"", b"", b"", b"", *_TEXT, b"\xc3", b"\xa9", b"\xff"]
VOCABULARY = Vocabulary(
    TOKENS,
    stop_token_ids=[STOP, 3],
    special_token_ids=[CALL, END],
    special_tokens={"<T>": CALL, "</T>": END, "<E>": 3},
)
BACKENDS = {name: make_backend(name, VOCABULARY) for name in ("xgrammar", "llguidance", "trie")}
# A private character for each special token, which no token of the vocabulary writes.
SPELLED = {Special("<T>"): "\ue001", Special("</T>"): "\ue002", CALL: "\ue001", END: "\ue002"}

REGULAR = ["[ab]+", "[ab]*", "(?:a|x<)?b", "1[>]?", "a|ab|b>"]


def ids_of(text: str) -> list[int]:
    """One token for each byte, and for each special token."""
    byte_ids = {TOKENS[i]: i for i in range(4, len(TOKENS)) if len(TOKENS[i]) == 1}
    found = []
    for char in text:
        special = next((i for i in (CALL, END) if SPELLED[i] == char), None)
        found += [special] if special is not None else [byte_ids[bytes([byte])] for byte in char.encode()]
    return found


def takes(grammar: Grammar, text: str) -> bool:
    grammar.reset()
    ids = [*ids_of(text), STOP]
    return grammar.accept(ids) == len(ids)


def spelled(marker: object) -> str:
    parts = [marker] if isinstance(marker, str | Special) else list(marker)  # type: ignore[call-overload]
    return "".join(part if isinstance(part, str) else SPELLED[part] for part in parts)


def oracle(grammar_spec: GrammarSpec, text: str) -> bool:
    """The definition, by trying every end of every region."""
    tagged = read_tagged_text(grammar_spec.text)
    assert tagged is not None
    triggers = [spelled(trigger) for trigger in tagged.triggers]
    separator = None if tagged.separator is None else spelled(tagged.separator)

    def tag_ends(start: int) -> set[int]:
        ends = set()
        for tag in tagged.tags:
            begin, end = spelled(tag.begin), spelled(tag.end)
            if not text.startswith(begin, start):
                continue
            inside = start + len(begin)
            for stop in range(inside, len(text) + 1):
                if not text.startswith(end, stop):
                    continue
                body = text[inside:stop]
                if tag.content is None:
                    whole = body + end
                    free = not re.search("[\ue001\ue002]", body) and (not end or whole.find(end) == len(body))
                    ends |= {stop + len(end)} if free else set()
                elif re.fullmatch(tag.content.text, body):
                    ends.add(stop + len(end))
        return ends

    def region_ends(start: int) -> set[int]:
        opening, closing = spelled(tagged.opening), spelled(tagged.closing)
        if not text.startswith(opening, start):
            return set()
        reached, todo = set(), tag_ends(start + len(opening))
        while todo:
            reached |= todo
            nexts = [e + len(separator) for e in todo if separator is not None and text.startswith(separator, e)]
            todo = {end for each in nexts for end in tag_ends(each)} - reached
        return {end + len(closing) for end in reached if text.startswith(closing, end)}

    def goes_on(start: int) -> bool:
        """Whether free text from ``start`` on, with its regions, is legal to the end."""
        for at in range(start, len(text) + 1):
            begun = [trigger for trigger in triggers if text.startswith(trigger, at)]
            if begun and text[start:at].find("\ue001") < 0 and text[start:at].find("\ue002") < 0:
                ends = region_ends(at)
                return any(end == len(text) if tagged.stop_after_first else goes_on(end) for end in ends)
            if at < len(text) and text[at] in "\ue001\ue002":
                return False
        return True

    if tagged.at_least_one:
        return any(end == len(text) if tagged.stop_after_first else goes_on(end) for end in region_ends(0))
    return goes_on(0)


def random_marker(rng: random.Random, *, may_be_empty: bool) -> object:
    text = "".join(rng.choice(["<a", "<a>", "<b", "[", "x", "</a>", ">", ", "]) for _ in range(rng.randint(1, 2)))
    kinds: list[object] = [text, text, text, Special("<T>"), [Special("</T>"), text], [text, Special("<T>")]]
    return rng.choice([*kinds, ""] if may_be_empty else kinds)


def random_spec(rng: random.Random) -> GrammarSpec | None:
    options: dict[str, object] = {"at_least_one": rng.random() < 0.4, "stop_after_first": rng.random() < 0.4}
    if rng.random() < 0.3:
        options |= {"separator": rng.choice([", ", "x", ""]), "closing": rng.choice(["]", "", ">"])}
        options["opening"] = random_marker(rng, may_be_empty=True)
    contents = [None, *map(regex, REGULAR)]
    tags = [
        Tag(random_marker(rng, may_be_empty=False), rng.choice(contents), random_marker(rng, may_be_empty=True))  # type: ignore[arg-type]
        for _ in range(rng.randint(1, 3))
    ]
    if rng.random() < 0.5:
        options["triggers"] = rng.sample(["<a", "<b", "[", "x", "<", Special("<T>")], rng.randint(1, 4))
    try:
        return tagged_text(tags, **options)  # type: ignore[arg-type]
    except InvalidGrammarError:
        return None


def random_text(rng: random.Random, grammar_spec: GrammarSpec) -> str:
    """Pieces of the tags and of other text, so that many texts are nearly legal."""
    tagged = read_tagged_text(grammar_spec.text)
    assert tagged is not None
    inside = ["a", "b", "ab", "1", "b>", "x<b", ""]
    text = spelled(tagged.opening) if rng.random() < 0.5 else ""
    for _ in range(rng.randint(1, 3)):
        tag = rng.choice(tagged.tags)
        text += rng.choice(["", "", "x", "<", "é", "a<"]) + spelled(tag.begin) + rng.choice(inside) + spelled(tag.end)
        text += rng.choice(["", spelled(tagged.separator or ""), spelled(tagged.closing)])
    cut = rng.randint(0, len(text)) if rng.random() < 0.2 else len(text)
    return text[:cut]


def masks(grammar: Grammar) -> list[int]:
    mask = torch.zeros(1, VOCABULARY.num_mask_words, dtype=torch.int32)
    grammar.fill_bitmask(mask, 0)
    return allowed_tokens(mask, VOCABULARY.size)[0].nonzero().flatten().tolist()  # type: ignore[no-any-return]


def grammars_of(grammar_spec: GrammarSpec) -> dict[str, Grammar]:
    found = {}
    for name, backend in BACKENDS.items():
        try:
            found[name] = backend.compile(grammar_spec).start()
        except UnsupportedGrammarError:
            assert name == "llguidance", "the others enforce every tagged text of these"
    return found


def test_random_tags_are_what_the_definition_says_on_every_backend() -> None:
    rng, legal, compared = random.Random(5), 0, dict.fromkeys(BACKENDS, 0)
    for _ in range(120):
        grammar_spec = random_spec(rng)
        if grammar_spec is None:
            continue
        grammars = grammars_of(grammar_spec)
        for _ in range(15):
            text = random_text(rng, grammar_spec)
            wanted = oracle(grammar_spec, text)
            legal += wanted
            for name, grammar in grammars.items():
                compared[name] += 1
                assert takes(grammar, text) == wanted, (name, text, grammar_spec.text)
    assert legal > 100 and min(compared.values()) > 400, (legal, compared)


def test_random_walks_have_one_mask_on_every_backend() -> None:
    rng = random.Random(6)
    for _ in range(40):
        grammar_spec = random_spec(rng)
        grammars = {} if grammar_spec is None else grammars_of(grammar_spec)
        for _ in range(4 if len(grammars) > 1 else 0):
            for grammar in grammars.values():
                grammar.reset()
            walk: list[int] = []
            for _ in range(15):
                rows = {name: masks(grammar) for name, grammar in grammars.items()}
                legal = rows["trie"]
                assert all(row == legal for row in rows.values()), (grammar_spec, walk, rows)
                if not legal:
                    break
                rare = [i for i in legal if i in (CALL, END) or TOKENS[i] in (b"<a>", b"[", b">", b"],")]
                walk.append(rng.choice(rare or legal if rng.random() < 0.6 else legal))
                assert all(grammar.accept(walk[-1:]) == 1 for grammar in grammars.values())
                if walk[-1] in VOCABULARY.stop_token_ids:
                    break


@pytest.mark.parametrize("name", ["xgrammar", "llguidance"])
def test_json_in_a_tag_ends_with_its_value(name: str) -> None:
    schema = {
        "type": "object",
        "properties": {"a": {"type": "string"}},
        "required": ["a"],
        "additionalProperties": False,
    }
    grammar_spec = tagged_text([Tag("<a", json_schema(schema, form=JsonForm("none")), ">")])
    grammar = BACKENDS[name].compile(grammar_spec).start()
    for text in ('x<a{"a":"b"}>y', '<a{"a":"<a>"}>', "xy"):
        assert takes(grammar, text)
    for text in ('<a{"a":"b"}', '<a{"a":"b"} >', '<a{"a":1}>', '<a{"a":"b","b":1}>', "<a>"):
        assert not takes(grammar, text)


def test_a_special_token_is_legal_only_where_a_marker_names_it() -> None:
    grammar_spec = tagged_text([Tag(Special("<T>"), regex("a"), Special("</T>"))])
    for backend in BACKENDS.values():
        grammar = backend.compile(grammar_spec).start()
        assert CALL in masks(grammar) and END not in masks(grammar)
        assert grammar.accept([CALL]) == 1 and masks(grammar) == ids_of("a")
        assert grammar.accept(ids_of("a")) == 1 and masks(grammar) == [END]
        assert grammar.accept([END]) == 1 and CALL in masks(grammar) and END not in masks(grammar)
        plain = backend.compile(tagged_text([Tag("<a", regex("a"), ">")])).start()
        assert not set(masks(plain)) & {CALL, END}


def test_a_name_that_is_no_special_token_is_its_text() -> None:
    for backend in BACKENDS.values():
        grammar = backend.compile(tagged_text([Tag(Special("<a"), regex("a"), Special(">"))])).start()
        assert takes(grammar, "x<aa>y") and not takes(grammar, "x<ab>")


def test_a_stop_token_as_an_end_ends_the_output() -> None:
    for backend in BACKENDS.values():
        grammar = backend.compile(tagged_text([Tag("<a", regex("a+"), Special("<E>"))])).start()
        assert takes(grammar, "x<aaa") and takes(grammar, "x") and not takes(grammar, "x<a")
        grammar.reset()
        assert grammar.accept([*ids_of("<aa"), 3]) == len(ids_of("<aa")) + 1 and grammar.is_terminated


def test_an_id_that_is_no_special_token_is_refused() -> None:
    for token in (5, 10_000, -1):
        grammar_spec = tagged_text([Tag(Special(token), regex("a"), ">")])
        for backend in BACKENDS.values():
            with pytest.raises(InvalidGrammarError, match=str(token)):
                backend.compile(grammar_spec)


@pytest.mark.parametrize(
    ("tags", "options"),
    [
        ([Tag("<a>", regex("[a>]+"), ">")], {}),  # the content may write its end
        ([Tag("<a>", json_schema({"type": "integer"}), "1")], {}),  # a number could run on
        ([Tag("<a>", regex("a"), "")], {}),  # nothing shows the end
        ([Tag("<a", regex("a"), "."), Tag("<ab", regex("a"), ".")], {"triggers": ["<"]}),
        ([Tag("<a", regex("a"), ".")], {"separator": ", "}),  # a separator may be text
        ([Tag("<a", ebnf('root ::= "a"'), ".")], {}),
    ],
)
def test_what_llguidance_cannot_cut_into_lexemes_is_refused_there_and_served_elsewhere(
    tags: list[Tag], options: dict[str, object]
) -> None:
    grammar_spec = tagged_text(tags, **options)  # type: ignore[arg-type]
    assert BACKENDS["llguidance"].unsupported(grammar_spec)
    assert not BACKENDS["xgrammar"].unsupported(grammar_spec)
    auto = make_backend("auto", VOCABULARY).compile(grammar_spec)
    assert auto.backend_name == "xgrammar"


def test_what_a_content_cannot_do_has_the_place_of_its_tag() -> None:
    grammar_spec = tagged_text(
        [
            Tag("<a", regex("a"), ">"),
            Tag("<b", json_schema({"properties": {"a": {"uniqueItems": True}}}), ">"),
        ]
    )
    for name in ("xgrammar", "llguidance"):
        places = [item.pointer for item in BACKENDS[name].unsupported(grammar_spec)]
        assert any(place.startswith("/format/tags/1/content/properties/a") for place in places), places
    grammar_spec = tagged_text([Tag("<a", lark('start: "a"'), ">")])
    assert BACKENDS["xgrammar"].unsupported(grammar_spec)[0].pointer == "/format/tags/0/content"


def test_choices_are_contents_too() -> None:
    for backend in BACKENDS.values():
        grammar = backend.compile(tagged_text([Tag("<a", choice(["a", "ab"]), ">")])).start()
        assert takes(grammar, "<aa>") and takes(grammar, "<aab>x") and not takes(grammar, "<ab>")
