"""How large a schema may be: what is checked before anything is resolved or compiled."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SchemaLimits:
    """Limits on one schema with the documents that it refers to. Exceeding one is a ``LimitExceededError``.

    max_bytes:
        Of the schema's text in UTF-8, or of its strings where it came as data.
    max_depth:
        Nesting of the JSON document. Each level costs the libraries below some stack.
    max_values:
        JSON values of any kind in one document: objects, arrays, strings, numbers.
    max_subschemas:
        Subschemas after references are resolved; one that is referred to often counts once.
    max_pattern_bytes:
        Of one regular expression.
    max_repetition:
        Two products: of the counts inside each other in one pattern (``(a{1,9}){1,9}`` makes 81), and of the least
        counts inside each other in the schema (``minItems`` of items with a ``minLength``): more than anybody writes.
    max_multiple_of:
        ``multipleOf`` as an integer without trailing zeros (0.25 is 25). Backends may bear far less.
    """

    max_bytes: int = 4_000_000
    max_depth: int = 200
    max_values: int = 400_000
    max_subschemas: int = 50_000
    max_pattern_bytes: int = 20_000
    max_repetition: int = 1_000_000
    max_multiple_of: int = 10**15


DEFAULT_LIMITS = SchemaLimits()
