"""A headless Chromium of the system, driven by selenium: one for a whole run."""

import shutil
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest
from selenium import webdriver
from selenium.common.exceptions import (
    ElementClickInterceptedException,
    NoSuchElementException,
    StaleElementReferenceException,
)
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.keys import Keys

from tests.support.waiting import until

CHROMIUMS = ("chromium", "chromium-browser", "google-chrome")
FLAGS = ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars", "--lang=en")
DESKTOP, PHONE = (1440, 900), (390, 844)


class Browser:
    """One window."""

    def __init__(self, driver: webdriver.Chrome) -> None:
        self._driver = driver
        self.resize(*DESKTOP)

    def resize(self, width: int, height: int) -> None:
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        self._driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)

    def set_dark(self, dark: bool) -> None:
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self._driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})

    def open(self, url: str) -> None:
        """Open a page, and wait until its script has painted it."""
        self._driver.get("about:blank")
        self._driver.get(url)
        self.wait("document.getElementById('live').textContent.length > 0", f"{url} is painted")

    def go(self, url: str) -> None:
        self._driver.get(url)

    def run(self, script: str) -> Any:
        return self._driver.execute_script(f"return {script}")

    def wait(self, condition: str, what: str, limit: float = 30) -> None:
        try:
            until(lambda: bool(self.run(condition)), what, limit)
        except AssertionError as late:
            shown = self.text("body")[:4000]
            raise AssertionError(f"{late}; complaints: {self.complaints()}; the page says: {shown}") from None

    def text(self, selector: str) -> str:
        """What one reads there, on one line."""
        found = self.run(f"document.querySelector({selector!r})?.innerText ?? ''")
        return " ".join(str(found).split())

    def press(self, *keys: str) -> None:
        for key in keys:
            webdriver.ActionChains(self._driver).send_keys(key).perform()

    def click(self, selector: str) -> None:
        self._driver.find_element("css selector", selector).click()

    def click_until(self, selector: str, condition: str, what: str) -> None:
        """Click until the condition holds: a page that draws itself anew may replace what is just being clicked."""

        def holds() -> bool:
            if not self.run(condition):
                with suppress(NoSuchElementException, StaleElementReferenceException, ElementClickInterceptedException):
                    self.click(selector)
            return bool(self.run(condition))

        until(holds, what, 30)

    def title(self) -> str:
        return self._driver.title

    def cookies(self) -> list[dict[str, Any]]:
        return self._driver.get_cookies()

    def forget(self) -> None:
        """Drop cookies and what was chosen; and what the console has said so far."""
        self._driver.delete_all_cookies()
        self._driver.get_log("browser")  # type: ignore[no-untyped-call]

    def complaints(self) -> list[str]:
        """What the console says since it was last asked: errors of scripts, violations of the policy, lost requests."""
        said = self._driver.get_log("browser")  # type: ignore[no-untyped-call]
        return [str(entry["message"]) for entry in said]

    def shoot(self, path: str) -> None:
        self._driver.save_screenshot(path)


ESCAPE, ENTER = Keys.ESCAPE, Keys.ENTER


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    """The browser of the run; skips where the system has none."""
    binary, driver = next(filter(None, map(shutil.which, CHROMIUMS)), None), shutil.which("chromedriver")
    if binary is None or driver is None:
        pytest.skip("no Chromium with its chromedriver here: apt-get install chromium chromium-driver")
    options = webdriver.ChromeOptions()
    options.binary_location = binary
    for flag in FLAGS:
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    window = webdriver.Chrome(options=options, service=Service(driver))
    yield Browser(window)
    window.quit()


@pytest.fixture
def browser(chromium: Browser) -> Browser:
    """The browser, as a new reader has it."""
    chromium.forget()
    chromium.resize(*DESKTOP)
    chromium.set_dark(False)
    return chromium
