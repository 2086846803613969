"""Does in a headless Chromium, through Playwright, what the tests ask for: a JSON object a line on
standard input, the answer as a line on standard output. Nothing leaves the machine: every request but
for the page itself is noted and refused."""

import json
import pathlib
import sys

from playwright.sync_api import sync_playwright

ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
]


class Tab:
    def __init__(self, browser):
        self.context = browser.new_context(viewport={"width": 1280, "height": 1000}, offline=True)
        self.page = self.context.new_page()
        self.own = ""
        self.complaints = []
        self.requests = []
        self.page.on("console", self.console)
        self.page.on("pageerror", lambda error: self.complaints.append(f"error: {error}"))
        self.page.on("request", self.request)

    def console(self, message):
        if message.type in ("error", "warning"):
            self.complaints.append(f"{message.type}: {message.text}")

    def request(self, request):
        if request.url not in (self.own, "data:,"):
            self.requests.append(request.url)

    def open(self, asked):
        self.own = pathlib.Path(asked["path"]).as_uri()
        self.page.goto(self.own)
        # From the start of the navigation until everything has been drawn once.
        return self.page.evaluate(
            "() => new Promise(done => requestAnimationFrame(() => setTimeout(() => done(performance.now()), 0)))"
        )

    def run(self, asked):
        return self.page.evaluate("() => {" + asked["script"] + "\n}")

    def key(self, asked):
        self.page.keyboard.press(asked["key"])

    def click(self, asked):
        self.page.click(asked["selector"], timeout=10_000)

    def drag(self, asked):
        box = self.page.locator(asked["selector"]).first.bounding_box()
        y = box["y"] + box["height"] / 2
        self.page.mouse.move(box["x"] + box["width"] * asked["from"], y)
        self.page.mouse.down()
        self.page.mouse.move(box["x"] + box["width"] * asked["to"], y, steps=4)
        self.page.mouse.up()

    def size(self, asked):
        self.page.set_viewport_size({"width": asked["width"], "height": asked["height"]})

    def look(self, asked):
        self.page.emulate_media(media=asked["media"], color_scheme=asked["theme"])

    def picture(self, asked):
        pathlib.Path(asked["path"]).parent.mkdir(parents=True, exist_ok=True)
        self.page.screenshot(path=asked["path"], full_page=asked["whole"])

    def axe(self, asked):
        import axe_playwright_python

        source = pathlib.Path(axe_playwright_python.__file__).with_name("axe.min.js").read_text("utf-8")
        self.page.evaluate(source)
        found = self.page.evaluate("() => axe.run(document, {resultTypes: ['violations']})")
        return [
            f"{one['impact']}: {one['id']}: {one['help']}: {node['html'][:200]}"
            for one in found["violations"]
            for node in one["nodes"][:3]
        ]

    def said(self, asked):
        answer = {"complaints": self.complaints, "requests": self.requests}
        self.complaints, self.requests = [], []
        return answer


def main():
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=sys.argv[1], headless=True, args=ARGUMENTS)
        tab = Tab(browser)
        print(json.dumps({"value": "ready"}), flush=True)
        for line in sys.stdin:
            asked = json.loads(line)
            try:
                answer = {"value": getattr(tab, asked["do"])(asked)}
            except Exception as error:  # The test says what failed.
                answer = {"error": str(error)}
            print(json.dumps(answer), flush=True)
        browser.close()


if __name__ == "__main__":
    main()
