# The pages for readers: each link to a file or a heading of this repository leads somewhere.

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
# A link whose text may have brackets of its own, outside of code.
LINK = re.compile(r"\]\(([^)\s]+)\)|(?:src|srcset)=\"([^\"]+)\"")


def pages() -> list[Path]:
    listed = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.md"], cwd=ROOT, check=True, text=True, capture_output=True)
    return [ROOT / name for name in listed.stdout.splitlines()]


def prose(text: str) -> str:
    """Returns a page's text without its blocks of code."""
    return re.sub(r"^ *```.*?^ *```", "", text, flags=re.M | re.S)


def anchors(page: Path) -> set[str]:
    """Returns the anchors of a page as the forge makes them from headings, and those that the page sets itself."""
    text = prose(page.read_text())
    headings = re.findall(r"^#+ (.*)$", text, re.M)
    plain = [re.sub(r"<[^>]*>|\[([^\]]*)\]\([^)]*\)", r"\1", heading) for heading in headings]
    made = {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in plain}
    return made | set(re.findall(r'<a id="([^"]+)"', text))


@pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_each_link_leads_somewhere(page):
    for match in LINK.finditer(re.sub(r"`[^`\n]*`", "", prose(page.read_text()))):
        target = match[1] or match[2]
        if re.match(r"[a-z]+:", target):
            continue
        name, _, anchor = target.partition("#")
        file = (page.parent / name).resolve() if name else page
        assert file.exists(), f"{target} is no file"
        assert not anchor or anchor in anchors(file), f"{target}: {file.name} has no such heading"
