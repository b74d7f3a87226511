"""Run-failure hook (WME_ON_FAILURE) that sends a JSON document about each failed run to a URL or a program."""

import json
import os
import shlex
import signal
import subprocess
import threading
import urllib.error
import urllib.request
from collections.abc import Iterable
from contextlib import suppress
from datetime import UTC, datetime
from http import HTTPStatus
from http.client import HTTPException
from typing import Any, Final

import dagster as dg

from pipelines.automation.discovery import partitions_of
from resources.enterprise.errors import Redactor
from resources.errors import MirrorError
from resources.formatting import legible, moment_text
from resources.settings import PROJECT, Settings
from resources.settings.types import is_address

#: Delivery timeout in seconds. Dagster allows one minute for an evaluation, which can include about five runs.
SECONDS: Final = 8.0
#: Maximum length of a message, and maximum number of steps.
_LONGEST, _STEPS = 2000, 10
#: Environment variables that are not passed to the program.
_SECRETS: Final = ("WME_PASSWORD", "WME_ON_FAILURE", "WME_NEW_PASSWORD", "WME_CODE")


class HookError(MirrorError):
    """The hook could not be notified about a failed run."""


def document(settings: Settings, run: dg.DagsterRun, message: str, steps: Iterable[tuple[str, str]]) -> dict[str, Any]:
    """Return the document for the hook, without secrets. `steps` contains each failed step's name and message."""
    redactor = Redactor()
    for secret in (settings.password, settings.on_failure):
        redactor.learn(None if secret is None else secret.get_secret_value())

    def clean(text: str) -> str:
        return legible(redactor.clean(text), _LONGEST)

    first, last = partitions_of(run)
    return {
        "event": "run_failure",
        "data": str(settings.data),
        "run_id": run.run_id,
        "run_path": f"/runs/{run.run_id}",
        "job": run.job_name,
        "assets": sorted(key.to_user_string() for key in run.asset_selection or ()),
        "first_partition": first,
        "last_partition": last,
        "failed_at": f"{moment_text(datetime.now(UTC))} UTC",
        "message": clean(message),
        "steps": [{"step": step, "message": clean(text)} for step, text in list(steps)[:_STEPS]],
    }


def deliver(target: str, content: dict[str, Any], seconds: float = SECONDS) -> None:
    """Send a document to a URL in a POST request, or to a program's standard input.

    Raises HookError if the delivery fails or times out. The message omits the target, which can contain a secret.
    """
    body = json.dumps(content, ensure_ascii=False).encode()
    failure = _post(target, body, seconds) if is_address(target) else _run(shlex.split(target), body, seconds)
    if failure:
        raise HookError(f"The {failure}. The run's page in the Dagster UI shows the failure.")


class _Stay(urllib.request.HTTPRedirectHandler):
    """Handler that rejects redirects, because the document is intended only for the configured URL."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


def _post(url: str, body: bytes, seconds: float) -> str | None:
    request = urllib.request.Request(url, body, {"Content-Type": "application/json"})  # noqa: S310 - http(s), by the setting
    outcome: list[str] = []
    late = f"no response within {seconds:g} seconds"

    def send() -> None:
        try:
            with urllib.request.build_opener(_Stay).open(request, timeout=seconds) as answer:
                outcome.append("" if answer.status < HTTPStatus.MULTIPLE_CHOICES else f"HTTP status {answer.status}")
        except urllib.error.HTTPError as error:
            outcome.append(f"HTTP status {error.code}")
        except (OSError, HTTPException, ValueError) as error:  # the library's message can contain the URL
            cause = getattr(error, "reason", None) or error
            outcome.append(late if isinstance(cause, TimeoutError) else f"unreachable: {type(cause).__name__}")

    # use a separate thread, because a socket timeout restarts with every byte
    thread = threading.Thread(target=send, name="failure-hook", daemon=True)
    thread.start()
    thread.join(seconds)
    why = outcome[0] if outcome else late
    return f"address in WME_ON_FAILURE did not accept the report ({why})" if why else None


def _run(words: list[str], body: bytes, seconds: float) -> str | None:
    environ = {name: value for name, value in os.environ.items() if name not in _SECRETS}
    try:
        process = subprocess.Popen(  # noqa: S603 - the operator's own program
            words, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, cwd=PROJECT, env=environ, start_new_session=True
        )
    except OSError as error:
        return f"program in WME_ON_FAILURE could not be started ({error.strerror})"
    try:
        process.communicate(body, timeout=seconds)
        why = f"exit code {process.returncode}" if process.returncode else ""
    except subprocess.TimeoutExpired:
        why = f"terminated after {seconds:g} seconds"
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # also kills the program's child processes
        process.wait()
    return f"program in WME_ON_FAILURE failed ({why})" if why else None
