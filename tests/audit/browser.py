"""A headless Chromium, driven by the W3C WebDriver protocol over plain HTTP: no library needed."""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
import urllib.error
import urllib.request
from pathlib import Path
from types import TracebackType
from typing import Any

from kafka_classic.testing.ports import PortLeases
from kafka_classic.testing.waiting import until

_ELEMENT = "element-6066-11e4-a52e-4f735466cecf"
ARGUMENTS = ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--window-size=1280,1000")


def programs() -> tuple[str, str] | None:
    """chromedriver and the browser, where both are installed."""
    driver = shutil.which("chromedriver")
    browser = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    return (driver, browser) if driver and browser else None


class Browser:
    """One session; `with` ends it and its driver."""

    def __init__(self, profile: Path, *, dark: bool = False) -> None:
        found = programs()
        assert found is not None
        self._leases = PortLeases()
        port = self._leases.draw()
        self._driver = subprocess.Popen(
            [found[0], f"--port={port}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        self._root = f"http://127.0.0.1:{port}"
        self._session = ""
        arguments = [*ARGUMENTS, f"--user-data-dir={profile}", *(["--force-dark-mode"] if dark else [])]
        try:
            self._wait_for_driver()
            wanted = {"goog:chromeOptions": {"binary": found[1], "args": arguments}}
            told = self._call("POST", "/session", {"capabilities": {"alwaysMatch": wanted}})
            self._session = f"/session/{told['sessionId']}"
        except BaseException:
            self.close()
            raise

    def open(self, path: Path) -> None:
        self._call("POST", f"{self._session}/url", {"url": path.as_uri()})

    def run(self, script: str, *arguments: Any) -> Any:
        """The value of a function's body."""
        return self._call("POST", f"{self._session}/execute/sync", {"script": script, "args": list(arguments)})

    def click(self, selector: str) -> None:
        """Click what the person would: fails where it is covered, or not there."""
        found = self._call("POST", f"{self._session}/element", {"using": "css selector", "value": selector})
        self._call("POST", f"{self._session}/element/{found[_ELEMENT]}/click", {})

    def press(self, key: str) -> None:
        """Press and let go of a key."""
        actions = [{"type": "keyDown", "value": key}, {"type": "keyUp", "value": key}]
        body = {"actions": [{"type": "key", "id": "keyboard", "actions": actions}]}
        self._call("POST", f"{self._session}/actions", body)

    def text(self, selector: str) -> str:
        return str(self.run("return document.querySelector(arguments[0]).innerText", selector))

    def screenshot(self, path: Path) -> None:
        path.write_bytes(base64.b64decode(self._call("GET", f"{self._session}/screenshot", None)))

    def close(self) -> None:
        try:
            if self._session:
                self._call("DELETE", self._session, None)
        finally:
            self._driver.terminate()
            self._driver.wait(30)
            self._leases.release_all()

    def __enter__(self) -> Browser:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _wait_for_driver(self) -> None:
        def ready() -> bool:
            try:
                return bool(self._call("GET", "/status", None)["ready"])
            except OSError:
                if self._driver.poll() is not None:
                    raise
                return False

        until(ready, "the browser's driver")

    def _call(self, method: str, path: str, body: Any) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self._root + path, data, {"Content-Type": "application/json"}, method=method)
        try:
            with urllib.request.urlopen(request, timeout=120) as answer:
                return json.load(answer)["value"]
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{method} {path}: {json.load(error)['value']['message']}") from None
