"""What a backend says of tagged texts, whatever it makes of them."""

from collections.abc import Callable
from dataclasses import replace

from constrain.errors import Unsupported
from constrain.grammar_spec import GrammarSpec
from constrain.tags import read_tagged_text


def unsupported_tags(
    grammar_spec: GrammarSpec, unsupported: Callable[[GrammarSpec], list[Unsupported]]
) -> list[Unsupported]:
    """What ``unsupported`` says of each tag's content, with its place; one reason for what is no tagged text."""
    tagged = read_tagged_text(grammar_spec.text)
    if tagged is None:
        return [Unsupported("a structural tag in a format that only xgrammar reads", "/format")]
    found = []
    for number, tag in enumerate(tagged.tags):
        for item in unsupported(tag.content) if tag.content is not None else ():
            place = f"/format/tags/{number}/content{item.pointer}"
            found.append(replace(item, pointer=place, reason=f"{item.reason} (in the tag that begins {tag.begin!r})"))
    return found
