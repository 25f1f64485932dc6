"""Client of Assay: every operation, retries, event streams and waiting."""
from .client import Assay
from .transport import AssayProblem, AssayUnreachable, Event

__all__ = ["Assay", "AssayProblem", "AssayUnreachable", "Event"]
