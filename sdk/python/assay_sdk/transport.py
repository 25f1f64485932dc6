"""HTTP of the SDK, with nothing but the standard library."""
from __future__ import annotations

import json
import random
import time
import urllib.error
import urllib.parse
import urllib.request
import uuid
from http.client import HTTPException, HTTPResponse
from typing import Any, Dict, Iterator, List, NamedTuple, Optional

FIRST_DELAY_SECONDS = 0.25
DELAY_MAX_SECONDS = 30.0
OUTAGES = (502, 503, 504)
REDIRECTS = (301, 302, 303, 307, 308)
# Maximum size of an answer that is kept in memory, and of an event.
ANSWER_BYTES_MAX = 256 * 1024 * 1024
CHUNK_BYTES = 64 * 1024
ANSWER_SECONDS_MAX = 10 * 60  # a server may send a byte now and then
EVENT_BYTES_MAX = 16 * 1024 * 1024


class AssayProblem(Exception):
    """The service responded with a problem. ``code`` is stable."""

    def __init__(self, problem: Dict[str, Any]) -> None:
        super().__init__(_to_printable(f"{problem.get('detail')} ({problem.get('code')})"))
        self.problem = problem
        self.code: str = problem.get("code", "")
        self.status: int = problem.get("status", 0)


class AssayUnreachable(Exception):
    """Nothing answered, or something that is not Assay."""


class Event(NamedTuple):
    """A server-sent event. ``data`` is parsed JSON."""

    event: str
    data: Any
    id: Optional[str]


class Transport:
    """Sends requests. Those that can be repeated safely are retried."""

    def __init__(self, url: str, key: Optional[str] = None, *, retries: int = 4, timeout: float = 60.0) -> None:
        self._url = url.rstrip("/")
        self._key = key
        self._retries = retries
        self._timeout = timeout

    def _json(self, method: str, path: str, **options: Any) -> Any:
        with self._send(method, path, **options) as response:
            return _parse_json(self._url, response)

    def _none(self, method: str, path: str, **options: Any) -> None:
        with self._send(method, path, **options) as response:
            response.read(ANSWER_BYTES_MAX)

    def _file(self, method: str, path: str, **options: Any) -> bytes:
        with self._send(method, path, **options) as response:
            return response.read()

    def _events(self, method: str, path: str, **options: Any) -> Iterator[Event]:
        """Yields events until the service ends the stream. Reconnects after a lost connection and resumes."""
        last_id: Optional[str] = None
        while True:
            headers = {"Accept": "text/event-stream"}
            if last_id is not None:
                headers["Last-Event-ID"] = last_id
            with self._send(method, path, headers=headers, **options) as response:
                try:
                    for event in _parse_events(response):
                        last_id = event.id or last_id
                        yield event
                        if event.event == "end":
                            return
                except (OSError, HTTPException):
                    pass  # the connection was lost
            time.sleep(FIRST_DELAY_SECONDS)

    def _send(
        self,
        method: str,
        path: str,
        *,
        params: Optional[Dict[str, str]] = None,
        query: Optional[Dict[str, Any]] = None,
        body: Any = None,
        upload: Optional[bytes] = None,
        media_type: str = "application/json",
        if_match: Optional[str] = None,
        creates: bool = False,
        headers: Optional[Dict[str, str]] = None,
    ) -> HTTPResponse:
        sent = {"Accept": "application/json, */*", **(headers or {})}
        data = upload if upload is not None else None if body is None else json.dumps(body).encode()
        if data is not None:
            sent["Content-Type"] = media_type
        if self._key is not None:
            sent["Authorization"] = f"Bearer {self._key}"
        if if_match is not None:
            sent["If-Match"] = if_match
        if creates:
            sent["Idempotency-Key"] = str(uuid.uuid4())
        request = urllib.request.Request(self._build_url(path, params, query), data=data, method=method, headers=sent)
        return self._open(request, is_repeatable=method in ("GET", "PUT") or creates)

    def _build_url(self, path: str, params: Optional[Dict[str, str]], query: Optional[Dict[str, Any]]) -> str:
        for name, value in (params or {}).items():
            if value in ("", ".", ".."):  # URLs drop such segments, which would lead to another operation
                raise ValueError(f"{value!r} is not a valid name ({name}).")
            path = path.replace("{" + name + "}", urllib.parse.quote(value, safe=""))
        pairs = [
            (name, each)
            for name, value in (query or {}).items()
            for each in (value if isinstance(value, list) else [value])
            if each is not None
        ]
        return self._url + path + (f"?{urllib.parse.urlencode(pairs)}" if pairs else "")

    def _open(self, request: urllib.request.Request, *, is_repeatable: bool) -> HTTPResponse:
        for attempt in range(self._retries + 1):
            is_last = attempt == self._retries
            try:
                return _OPENER.open(request, timeout=self._timeout)
            except urllib.error.HTTPError as error:
                if error.code in REDIRECTS:
                    error.close()
                    raise AssayUnreachable(
                        f"{self._url} redirects to another address. Use the address of the service itself."
                    ) from None
                # A rate limit refuses before anything happens, so every request is repeated after it.
                may_retry = error.code == 429 or (is_repeatable and error.code in OUTAGES)
                if is_last or not may_retry:
                    raise _to_error(self._url, error) from None
                delay = _delay(attempt, error.headers.get("Retry-After"))
                error.close()
            except (OSError, HTTPException) as error:
                if is_last or not is_repeatable:
                    raise AssayUnreachable(f"No response from {self._url}. Is the service running there?") from error
                delay = _delay(attempt, None)
            time.sleep(delay)
        raise AssertionError("unreachable")


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Follows no redirect: the other address would receive the key, and the body, which may contain secrets."""

    def redirect_request(self, *_: Any) -> None:
        return None


_OPENER = urllib.request.build_opener(_NoRedirects)


def _to_printable(text: str) -> str:
    """Replaces characters that control a terminal or reorder a line. Problems quote names that others have chosen."""
    return "".join(each if each.isprintable() else "\ufffd" for each in text)


def _parse_json(url: str, response: Any) -> Any:
    content = bytearray()
    started = time.monotonic()
    # read1 returns what has arrived, so that a server that sends a byte now and then is noticed.
    while chunk := response.read1(CHUNK_BYTES):
        content += chunk
        if len(content) > ANSWER_BYTES_MAX or time.monotonic() - started > ANSWER_SECONDS_MAX:
            raise AssayUnreachable(f"{url} sent an answer that is too large or too slow. Check the address.")
    try:
        return json.loads(content or b"null")
    except (ValueError, RecursionError):
        raise AssayUnreachable(
            f"{url} does not seem to be Assay: its answer is not JSON. Check the address."
        ) from None


def _delay(attempt: int, retry_after: Optional[str]) -> float:
    if retry_after is not None and retry_after.isdigit():
        return min(float(retry_after), DELAY_MAX_SECONDS)
    return min(FIRST_DELAY_SECONDS * 2**attempt * (0.5 + random.random()), DELAY_MAX_SECONDS)


def _to_error(url: str, error: urllib.error.HTTPError) -> Exception:
    with error:
        if error.headers.get_content_type() == "application/problem+json":
            problem = _parse_json(url, error)
            if isinstance(problem, dict):
                return AssayProblem(problem)
    return AssayUnreachable(f"{url} responded with {error.code}, but it does not seem to be Assay. Check the address.")


def _parse_events(response: HTTPResponse) -> Iterator[Event]:
    name, event_id = "message", None
    lines: List[str] = []
    room = EVENT_BYTES_MAX
    for raw in iter(lambda: response.readline(room + 1), b""):
        room -= len(raw)
        if room < 0:
            raise AssayUnreachable("The service sent an event that is too large.")
        line = raw.decode().rstrip("\r\n")
        field, _, value = line.partition(":")
        value = value[1:] if value.startswith(" ") else value
        if line == "":
            if lines:
                yield Event(name, json.loads("\n".join(lines)), event_id)
            name, lines, event_id, room = "message", [], None, EVENT_BYTES_MAX
        elif field == "data":
            lines.append(value)
        elif field == "event":
            name = value
        elif field == "id":
            event_id = value
