"""A headless Chromium for tests of pages, driven by its debugging protocol over two pipes."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

PROGRAM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser"))), None)
_OPTIONS = (
    "--headless", "--no-sandbox", "--remote-debugging-pipe", "--use-angle=swiftshader",
    "--enable-unsafe-swiftshader", "--hide-scrollbars", "--no-first-run",
    "--disable-background-networking", "about:blank",
)  # fmt: skip


class Browser:
    """One page, its messages and its requests.

    Attributes
    ----------
    said : console messages, errors and exceptions. asked : addresses of requests.
    """

    def __init__(self, to: int, back: int) -> None:
        self._to, self._back = to, back
        self._buffer = b""
        self._number = 0
        self._session = ""
        self.said: list[str] = []
        self.asked: list[str] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    @property
    def silent(self) -> bool:
        """Whether there was no error and no request to the network."""
        errors = [message for message in self.said if '"type": "log"' not in message]
        return not errors and not any(url.startswith(("http", "ws")) for url in self.asked)

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._read()
            if answer.get("id") == self._number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]
            self._hear(answer)

    def open(self, path: Path, width: int, height: int) -> None:
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height,
            deviceScaleFactor=1, mobile=width < 600,
        )  # fmt: skip
        self.call("Page.navigate", url=path.resolve().as_uri())

    def run(self, expression: str) -> Any:
        result = self.call(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in result, result
        return result["result"].get("value")

    def until(self, expression: str, seconds: float = 60.0) -> None:
        end = time.monotonic() + seconds
        while not self.run(expression):
            assert time.monotonic() < end, f"{expression} never came true; {self.said}"
            time.sleep(0.05)

    def picture(self, path: Path | None = None) -> bytes:
        data = base64.b64decode(self.call("Page.captureScreenshot")["data"])
        if path is not None:
            path.write_bytes(data)
        return data

    def _read(self) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            part = os.read(self._back, 1 << 20)
            assert part, "the browser is gone"
            self._buffer += part
        message, _, self._buffer = self._buffer.partition(b"\0")
        return json.loads(message)

    def _hear(self, event: dict[str, Any]) -> None:
        method, content = event.get("method"), event.get("params", {})
        if method in ("Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded"):
            self.said.append(json.dumps(content)[:500])
        if method == "Network.requestWillBeSent":
            self.asked.append(content["request"]["url"])


@contextlib.contextmanager
def browser(folder: Path) -> Iterator[Browser]:
    """A browser whose profile is in a folder; gone at the end."""
    assert PROGRAM is not None
    here, to = os.pipe()
    back, there = os.pipe()

    def pipes() -> None:
        os.dup2(here, 3)
        os.dup2(there, 4)

    here, there = os.dup(here), os.dup(there)  # numbers above 4, not to be overwritten
    command = [PROGRAM, f"--user-data-dir={folder}", *_OPTIONS]
    process = subprocess.Popen(
        command, preexec_fn=pipes, close_fds=False, stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        yield Browser(to, back)
    finally:
        process.terminate()
        process.wait(20)
        for fd in (to, back, here, there):
            os.close(fd)
