"""Finding the tokenizer of a model."""

from typing import Any

from transformers import AutoTokenizer

from constrain.errors import InvalidInputError


def load_tokenizer(model: Any) -> Any:
    """The tokenizer that lies beside a model's checkpoint. Raises ``InvalidInputError`` if there is none."""
    name = model.config.name_or_path
    if not name:
        raise InvalidInputError("the model does not say where it came from: pass tokenizer=")
    try:
        return AutoTokenizer.from_pretrained(name)
    except (OSError, ValueError) as exc:
        raise InvalidInputError(f"no tokenizer at {name!r}: pass tokenizer= ({exc})") from exc
