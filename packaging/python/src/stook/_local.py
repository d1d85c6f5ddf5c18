"""A catalogue on this machine: a server of its own, which only this process can call and which ends with it."""

from __future__ import annotations

import getpass
import json
import os
import pathlib
import secrets
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import threading
from typing import Any, Dict, List, Optional

from ._errors import DefinitionError, Place, StookError

_END_TIME = 10.0
"""Seconds in which the server ends."""
_WORKERS = str(min(os.cpu_count() or 1, 4))
"""Threads that process imports."""


def program() -> str:
    """The program of this package, or the one on the path. The variable STOOK_PROGRAM names another one."""
    named = os.environ.get("STOOK_PROGRAM")
    if named:
        return named
    name = "stook" + (sysconfig.get_config_var("EXE") or "")
    schemes = [sysconfig.get_path("scripts"), os.path.dirname(sys.executable)]
    for folder in schemes:
        candidate = os.path.join(folder, name)
        if os.access(candidate, os.X_OK) and os.path.isfile(candidate):
            return candidate
    found = shutil.which("stook")
    if found is None:
        raise StookError("the program `stook` is not there: install it with `pip install stook`, or name it in the variable STOOK_PROGRAM")
    return found


class LocalServer:
    """A `stook serve` of one folder."""

    def __init__(self, folder: pathlib.Path, store: Optional[str], tenant: str) -> None:
        if not (folder / "catalogue.yaml").is_file():
            raise StookError(f"{folder} has no catalogue.yaml; `stook init {folder}` makes one")
        self._folder = folder
        secret = secrets.token_hex(32)
        # a file that only this user can read, because the arguments of a process can be seen by all
        self._secret = tempfile.NamedTemporaryFile("w", prefix="stook", suffix=".secret")
        self._secret.write(secret)
        self._secret.flush()
        proxy = ["--trust-proxy", "127.0.0.1", "--proxy-secret-file", self._secret.name, "--proxy-rights", "*=admin", "--proxy-tenant", tenant]
        self._process = subprocess.Popen(
            [program(), "-C", str(folder), *(["--store", store] if store else []), "serve", "--listen", "127.0.0.1:0", "--workers", _WORKERS, *proxy],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            errors="replace",
        )
        self._said: List[str] = []
        self.url = self._wait()
        self.headers: Dict[str, str] = {"X-Proxy-Secret": secret, "X-Forwarded-User": _user()}

    def _wait(self) -> str:
        """Waits until the server says its address. What it writes later is kept, in part, for when it ends."""
        stderr = self._process.stderr
        assert stderr is not None
        for line in stderr:
            self._said.append(line)
            if line.startswith("serving ") and " on http://" in line:
                threading.Thread(target=self._listen, daemon=True).start()
                return "http://" + line.split(" on http://", 1)[1].split()[0]
        self._process.wait()
        self._secret.close()
        raise self._failure()

    def _listen(self) -> None:
        stderr = self._process.stderr
        assert stderr is not None
        for line in stderr:
            self._said.append(line)
            del self._said[:-100]

    def _failure(self) -> StookError:
        """Why the server has not started: mistakes of the definition with their places, or what it said."""
        said = "".join(self._said).strip()
        checked = subprocess.run([program(), "-C", str(self._folder), "check", "--json"], capture_output=True, text=True, encoding="utf-8")
        try:
            problems: List[Dict[str, Any]] = json.loads(checked.stdout)["problems"]
        except (ValueError, KeyError):
            problems = []
        if not problems:
            return StookError(said or "the server did not start")
        sentences = [problem["message"] + (f"; {problem['help']}" if problem["help"] else "") for problem in problems]
        places = [Place(problem["line"], problem["column"]) for problem in problems]
        reasons = [f"{place.line}:{place.column}: {sentence}" for place, sentence in zip(places, sentences)]
        return DefinitionError(sentences[0], place=places[0], shown=said, reasons=reasons)

    def close(self) -> None:
        """Ends the server; what is in progress is finished."""
        if self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(_END_TIME)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        self._secret.close()


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError, ImportError):
        return "python"
