"""The client of a service."""
from __future__ import annotations

from typing import Any, Callable, Dict, Iterator, Optional

from .operations_gen import BatchRun, Comparison, Operations
from .transport import AssayUnreachable


class Assay(Operations):
    """A client of one service.

    >>> assay = Assay("http://127.0.0.1:4000", key="assay_…")
    >>> assay.read_own_key()["org"]
    """

    def pages(self, method: Callable[..., Dict[str, Any]], *args: str, **query: Any) -> Iterator[Dict[str, Any]]:
        """Yields the pages of a list, from the first to the last: ``assay.pages(assay.list_keys, "local")``."""
        cursor: Optional[str] = None
        while True:
            page = method(*args, **query, cursor=cursor)
            yield page
            following = page.get("nextCursor")
            if not following:
                return
            if following == cursor:
                raise AssayUnreachable("The service repeats a page.")
            cursor = following

    def wait_for_comparison(
        self,
        org: str,
        comparison_id: str,
        *,
        benchmark: Optional[str] = None,
        repository: Optional[str] = None,
        on_status: Optional[Callable[[Comparison], None]] = None,
    ) -> Comparison:
        """Waits until a comparison on a benchmark or a repository has ended or paused, and returns it with its answer."""
        if (benchmark is None) == (repository is None):
            raise ValueError("Give either benchmark or repository, as owner/name.")
        first, _, second = (benchmark or repository or "").partition("/")
        watch = self.watch_comparison_on_benchmark if benchmark else self.watch_comparison_on_repository
        read = self.read_comparison_on_benchmark if benchmark else self.read_comparison_on_repository
        for event in watch(org, first, second, comparison_id):
            if event.event != "status":
                continue
            if on_status is not None:
                on_status(event.data)
            if event.data["state"] == "paused":
                break
        return read(org, first, second, comparison_id)

    def wait_for_batch(
        self,
        org: str,
        repository: str,
        run_id: str,
        *,
        on_status: Optional[Callable[[BatchRun], None]] = None,
    ) -> BatchRun:
        """Waits until a batch has ended, and returns it."""
        owner, _, name = repository.partition("/")
        for event in self.follow_batch(org, owner, name, run_id):
            if event.event == "status" and on_status is not None:
                on_status(event.data)
        return self.read_batch(org, owner, name, run_id)
