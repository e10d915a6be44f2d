"""The grammar of JSON objects (RFC 8259), in GBNF."""

from constrain.grammar_spec import JsonForm

_OBJECT = r"""
root     ::= object
object   ::= "{" (blank member (comma member)* blank | EMPTY) "}"
member   ::= string colon value
array    ::= "[" (blank value (comma value)* blank | EMPTY) "]"
value    ::= object | array | string | number | "true" | "false" | "null"

string   ::= "\"" ([^"\\\x00-\x1F] | "\\" escape)* "\""
escape   ::= ["\\/bfnrt] | "u" (unit | high "\\u" low)
unit     ::= [0-9a-cA-CeEfF] hex{3} | [dD] [0-7] hex{2}
high     ::= [dD] [89abAB] hex{2}
low      ::= [dD] [c-fC-F] hex{2}
hex      ::= [0-9a-fA-F]

number   ::= "-"? ("0" | [1-9] [0-9]*) ("." [0-9]+)? ([eE] [+-]? [0-9]+)?
"""

_SPACING = {
    "none": ('""', '","', '":"', '""'),
    "canonical": ('""', '", "', '": "', '""'),
    "flexible": (r"[ \t\n\r]{{0,{most}}}", 'blank "," blank', 'blank ":" blank', "blank"),
}


def object_grammar(form: JsonForm) -> str:
    """The GBNF of any JSON object in ``form``: no blanks around it, and lone surrogates are not escaped."""
    blank, comma, colon, empty = _SPACING[form.whitespace]
    text = _OBJECT.replace("EMPTY", empty)
    return f"{text}\nblank ::= {blank.format(most=form.max_whitespace)}\ncomma ::= {comma}\ncolon ::= {colon}\n"
