"""How cases look at the live page: what stands where, and whether people can read it."""
from browser import Browser
from page_figures import RECORDER

WIDTHS = (320, 480, 768, 1024, 1440, 1920, 2560, 3840)
# Texts whose contrast with what is behind them is below 4.5, or 3 where they are large; and how many were looked at.
CONTRAST = """
const channel = c => (c /= 255) <= .04045 ? c / 12.92 : ((c + .055) / 1.055) ** 2.4;
const light = ([r, g, b]) => .2126 * channel(r) + .7152 * channel(g) + .0722 * channel(b);
const parts = text => { const n = text.match(/[\\d.]+/g).map(Number); return n.length < 4 ? [...n, 1] : n; };
const over = (top, below) => top.slice(0, 3).map((c, i) => c * top[3] + below[i] * (1 - top[3]));
function behind(node) {
  const stack = [];
  for (; node; node = node.parentElement) stack.push(parts(getComputedStyle(node).backgroundColor));
  return stack.reverse().reduce((below, top) => over(top, below), [255, 255, 255]);
}
const bad = [];
let seen = 0;
const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
while (walker.nextNode()) {
  const node = walker.currentNode.parentElement, style = getComputedStyle(node);
  if (!walker.currentNode.data.trim() || !node.checkVisibility({visibilityProperty: true})) continue;
  if (node.closest("script, style, option, .unseen")) continue;
  const ground = behind(node), ink = over(parts(node.closest("svg.plot") ? style.fill : style.color), ground);
  const [a, b] = [light(ink), light(ground)].sort((x, y) => y - x), ratio = (a + .05) / (b + .05);
  seen++;
  if (ratio < 4.5) bad.push([walker.currentNode.data.trim().slice(0, 40), ratio.toFixed(2), style.color]);
}
return {bad, seen};
"""
# What reaches beyond the screen, and is not cut off by what it stands in.
WIDE = """
const width = document.documentElement.clientWidth;
const seen = [...document.querySelectorAll("body *")].filter(node => node.checkVisibility());
const named = node => node.tagName + "." + node.className + " " + node.textContent.slice(0, 30);
const out = seen.filter(node => !node.closest(".unseen, .skip, svg, thead") && node.getBoundingClientRect().width > 0
  && node.getBoundingClientRect().right > width + 1).map(named);
const inside = seen.filter(node => node.scrollWidth > node.clientWidth + 1
  && ["auto", "scroll"].includes(getComputedStyle(node).overflowX)).map(named);
return {out, inside, scroll: document.documentElement.scrollWidth, width};
"""


def wait_for_another(browser, seen):
    browser.wait_for("another snapshot",
        "return document.documentElement.dataset.snapshot !== arguments[0] && document.documentElement.dataset.before", str(seen))


def look_at(lab, port):
    """A browser with the page, which shows rates; everything that it gets is kept."""
    browser = Browser(lab)
    browser.resize(1440, 1000)
    browser.protocol("Page.addScriptToEvaluateOnNewDocument", source=RECORDER)
    browser.open(f"http://127.0.0.1:{port}/")
    browser.wait_for("rates", "return document.documentElement.dataset.before")
    return browser


def check_quiet(browser):
    messages = browser.console()
    assert not messages, messages


def text_of(browser, selector):
    """As people read it; empty: it is not there, or hidden."""
    return browser.run("return document.querySelector(arguments[0])?.innerText ?? ''", selector)


def card_of(browser, name):
    """The text of a job's card; empty: there is none."""
    return browser.run("""return [...document.querySelectorAll('.job')]
        .find(card => card.querySelector('.name').textContent === arguments[0])?.innerText ?? ''""", name)


def choose(browser, selector, value):
    """In a list of choices."""
    browser.run("""const list = document.querySelector(arguments[0]);
        list.value = arguments[1];
        list.dispatchEvent(new Event('input'));""", selector, value)
