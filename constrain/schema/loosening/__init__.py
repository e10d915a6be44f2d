"""Loose schemas: what guides a model where no library follows the whole schema, and only refuses what is invalid."""

from constrain.schema.loosening.loose import LooseSchema, loosened
from constrain.schema.loosening.rules import LOOSE_RULES

__all__ = ["LOOSE_RULES", "LooseSchema", "loosened"]
