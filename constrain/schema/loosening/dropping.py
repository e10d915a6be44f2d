"""Taking a keyword out of a loose schema, whose places all speak for a value: less is looser."""

from typing import Any

from constrain.errors import Unsupported

_READ_BY = {
    "properties": ("additionalProperties",),
    "prefixItems": ("items",),
}
"""What means more where the keyword is gone, and goes with it."""


def drop_(data: Any, item: Unsupported) -> bool:
    """Take the keyword of ``item`` out of ``data``, in place, or all that is in the subschema there.

    True where that has changed anything.
    """
    *path, last = [token.replace("~1", "/").replace("~0", "~") for token in item.pointer.split("/")[1:]] or [""]
    place = data
    for token in path:
        place = _inside(place, token)
    if isinstance(place, dict) and last == item.keyword and last in place:
        _drop_keyword_(place, last)
        return True
    inner = _inside(place, last) if item.pointer else data
    if not isinstance(inner, dict):
        return False
    kept = {"$defs": inner["$defs"]} if "$defs" in inner and not item.pointer else {}
    changed = kept != inner
    inner.clear()
    inner.update(kept)
    return changed


def _drop_keyword_(place: dict[str, Any], keyword: str) -> None:
    value = place.pop(keyword)
    if keyword == "patternProperties" and "additionalProperties" in place:
        if len(value) > 1:  # keys may still match none but these
            place[keyword] = {"|".join(f"(?:{pattern})" for pattern in value): {}}
        else:
            del place["additionalProperties"]
    for other in _READ_BY.get(keyword, ()):
        place.pop(other, None)


def _inside(place: Any, token: str) -> Any:
    if isinstance(place, list):
        return place[int(token)] if token.isdecimal() and int(token) < len(place) else None
    return place.get(token) if isinstance(place, dict) else None
