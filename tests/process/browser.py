"""A browser that a test drives: Chromium through chromedriver, over WebDriver, with nothing but the standard library."""
import base64
import json
import os
import pathlib
import re
import shutil
import time
import urllib.error
import urllib.request

from lab import Skipped
from programs import Programs, wait_until

# chromium: as root it has no sandbox; nothing of it looks for news of its maker; the pipe ends it with its driver,
# however that ends.
ARGUMENTS = ("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-dev-shm-usage",
             "--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-extensions",
             "--hide-scrollbars", "--force-device-scale-factor=1", "--remote-debugging-pipe")
LOOK = 0.1  # seconds between two looks at a page: each takes it some time
PATIENCE = 120  # seconds; a page takes one or two where the machine is not starved


def needed():
    """The two programs; Skipped without them."""
    found = [shutil.which(name) for name in ("chromium", "chromedriver")]
    if not all(found):
        raise Skipped("needs chromium and chromedriver: apt-get install chromium chromium-driver")
    return found


class Browser:
    """One window with a profile of its own. `with Browser(lab) as browser:`"""

    def __init__(self, lab):
        chromium, driver = needed()
        number = sum(program.name.startswith("chromedriver") for program in lab.programs) + 1
        profile = os.path.join(lab.directory, f"browser{number}")
        os.mkdir(profile)
        # Whatever it keeps beside its profile goes there too.
        self.driver = lab.run(f"chromedriver{number}", [driver, "--port=0"],
                              {"HOME": profile, "XDG_CONFIG_HOME": profile, "XDG_CACHE_HOME": profile})
        port = wait_until(lambda: f"chromedriver; it said:\n{self.driver.said()}{self.driver.complained()}",
                          lambda: re.search(r"successfully on port (\d+)", self.driver.said()), PATIENCE).group(1)
        self.address = f"http://127.0.0.1:{port}"
        self.session = ""
        options = {"binary": chromium, "args": [*ARGUMENTS, f"--user-data-dir={profile}"]}
        answer = self.call("POST", "/session", {"capabilities": {"alwaysMatch": {
            "browserName": "chrome", "goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"}}}})
        self.session = f"/session/{answer['sessionId']}"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        """The window and its processes are gone, or will be with the driver: a browser that is kept from running may not end
        in time, and nothing is shown by that."""
        if self.session and self.driver.runs():
            try:
                self.call("DELETE", "")
            except OSError as error:
                self.driver.kill()
                print(f"the browser did not end by itself: {error}")
        self.session = ""

    def call(self, method, path, parameters=None):
        """A command of WebDriver, below the session once there is one; its value."""
        body = None if method != "POST" else json.dumps(parameters or {}).encode()
        request = urllib.request.Request(self.address + self.session + path, body,
                                         {"Content-Type": "application/json"}, method=method)
        try:
            with urllib.request.urlopen(request, timeout=Programs.patience(PATIENCE)) as answer:
                return json.load(answer)["value"]
        except urllib.error.HTTPError as error:
            value = json.loads(error.read())["value"]
            raise AssertionError(f"{method} {path}: {value['error']}: {value['message']}") from error

    def protocol(self, command, **parameters):
        """A command of Chromium's own protocol."""
        return self.call("POST", "/goog/cdp/execute", {"cmd": command, "params": parameters})

    def open(self, address):
        self.call("POST", "/url", {"url": address})

    def run(self, script, *arguments):
        """What the body of a function of JavaScript returns; `arguments` are its arguments."""
        return self.call("POST", "/execute/sync", {"script": script, "args": list(arguments)})

    def wait_for(self, what, script, *arguments, seconds=PATIENCE):
        """The first true value that the script returns."""
        def there():
            value = self.run(script, *arguments)
            if not value:
                time.sleep(LOOK)
            return value

        return wait_until(what, there, seconds)

    def resize(self, width, height):
        """Of what the page sees, in its pixels; narrower than any window may be."""
        self.protocol("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)

    def prefer(self, **features):
        """What the person's system asks for: prefer(color_scheme="dark", reduced_motion="reduce")."""
        self.protocol("Emulation.setEmulatedMedia", features=[
            {"name": "prefers-" + name.replace("_", "-"), "value": value} for name, value in features.items()])

    def console(self):
        """Messages since the last call, each {level, message, source, timestamp}."""
        return self.call("POST", "/se/log", {"type": "browser"})

    def type(self, selector, keys):
        """As a person does; what stood there before is gone."""
        element = next(iter(self.call("POST", "/element", {"using": "css selector", "value": selector}).values()))
        self.call("POST", f"/element/{element}/clear")
        if keys:
            self.call("POST", f"/element/{element}/value", {"text": keys})

    def click(self, selector):
        element = next(iter(self.call("POST", "/element", {"using": "css selector", "value": selector}).values()))
        self.call("POST", f"/element/{element}/click")

    def press(self, key):
        """One key, where the focus is: a character, or one of WebDriver's names such as '\\ue004' for Tab."""
        self.call("POST", "/actions", {"actions": [{"type": "key", "id": "keys", "actions": [
            {"type": "keyDown", "value": key}, {"type": "keyUp", "value": key}]}]})

    def picture(self, path):
        """A PNG of what the window shows."""
        pathlib.Path(path).write_bytes(base64.b64decode(self.call("GET", "/screenshot")))
