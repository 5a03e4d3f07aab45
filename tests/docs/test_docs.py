"""What the documentation shows is what happens, and what it lists is what there is."""

from __future__ import annotations

import os
import pkgutil
import re
from pathlib import Path
from typing import get_args

import pytest
from scripts.generate_docs import regenerate
from tests.docs.pages import PageError, pages, run_page
from tests.spark import spark_session

import polylake
from polylake.log import Finding, required_features
from polylake.maintenance import MaintenanceMetrics, to_prometheus
from polylake.schema import StructType

ROOT = Path(__file__).parents[2]
API = sorted((ROOT / "docs" / "api").glob("*.md"))
PAGES = {str(page.relative_to(ROOT)): page for page in pages(ROOT)}


@pytest.fixture
def bare_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """An empty folder, and no credentials of whoever runs the tests."""
    monkeypatch.chdir(tmp_path)
    for name in os.environ:
        if name.startswith(("AWS_", "AZURE_", "GOOGLE_")):
            monkeypatch.delenv(name)


@pytest.mark.parametrize("name", PAGES)
@pytest.mark.usefixtures("bare_environment")
def test_code_does_what_the_page_shows(name: str) -> None:
    text = PAGES[name].read_text()
    if "lake_session(" in text:
        spark_session()
    run_page(name, text)


@pytest.mark.parametrize("name", PAGES)
def test_generated_parts_are_up_to_date(name: str) -> None:
    text = PAGES[name].read_text()
    assert regenerate(text) == text, "run scripts/generate_docs.py"


def test_recovery_has_a_section_for_every_finding() -> None:
    headings = re.findall(r"^#+ .*`(\w+)`", PAGES["docs/recovery.md"].read_text(), re.MULTILINE)
    assert sorted(headings) == sorted(finding.__name__ for finding in get_args(Finding))


def test_properties_bring_the_features_that_the_page_says() -> None:
    rows = re.findall(
        r"^\| `(delta[^`]+)`(?: = `(\w+)`.*)? \| `(\w+)` \|$",
        PAGES["docs/protocol.md"].read_text(),
        re.MULTILINE,
    )
    assert rows
    for name, value, feature in rows:
        assert feature in required_features(StructType([]), {name: value})


def test_alerts_are_on_metrics_that_there_are() -> None:
    served = set(re.findall(r"^# TYPE (\S+)", to_prometheus(MaintenanceMetrics()), re.MULTILINE))
    named = set(re.findall(r"polylake_maintenance_\w+", PAGES["docs/operations.md"].read_text()))
    assert named == served


def test_every_public_package_has_a_page_of_its_own() -> None:
    public = {"polylake"} | {
        f"polylake.{module.name}"
        for module in pkgutil.iter_modules(polylake.__path__)
        if not module.name.startswith("_") and module.name != "cli"
    }
    shown = re.findall(r"^::: (\S+)$", "".join(map(Path.read_text, API)), re.MULTILINE)
    assert sorted(shown) == sorted(public)


def test_every_page_can_be_found_from_the_contents() -> None:
    listed = set(re.findall(r"\S+\.md$", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE))
    assert listed == {
        str(page.relative_to(ROOT / "docs")) for page in (ROOT / "docs").rglob("*.md")
    }


@pytest.mark.parametrize("name", PAGES)
def test_links_lead_somewhere(name: str) -> None:
    for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", PAGES[name].read_text()):
        assert (PAGES[name].parent / target).exists(), target


@pytest.mark.parametrize(
    ("page", "complaint"),
    [
        ("a\n\n```python\nx = 1\nx / 0\n```\n", r"page\.md:5: ZeroDivisionError"),
        ("```python\nx = (\n```\n", r"page\.md:2: "),
        ("```python\nprint(1)\n```\n\n```text\n2\n```\n", r"page\.md:2: the block prints\n1\n"),
        ("```python\nprint(1)\n```\n", r"page\.md:2: the block prints\n1\n\nand .*\nnothing"),
        ("```pycon\n>>> 1 + 1\n3\n```\n", r'page\.md:2: [^"]*"page\.md", line 2'),
        ('```json\n{"a": }\n```\n', r"page\.md:2: "),
        ("```xml\n<a>\n```\n", r"page\.md:2: "),
        ("```python no-run\nx\n```\n", r"page\.md:2: .*put <!-- no-run -->"),
        ("<!-- no-run -->\n```python\nx = (\n```\n", r"page\.md:3: "),
    ],
)
def test_a_page_that_is_wrong_is_named_with_the_line(page: str, complaint: str) -> None:
    with pytest.raises(PageError, match=complaint):
        run_page("page.md", page)


def test_blocks_of_a_page_share_names_and_marked_ones_do_not_run() -> None:
    run_page(
        "page.md",
        "```python\nx = 1\n```\n<!-- no-run -->\n```python\nx = unknown()\n```\n"
        "```pycon\n>>> y = x + 1\n```\n- item\n\n  ```python\n  print(y, 'z')\n  ```\n\n"
        "  ```text\n  2 ...\n  ```\n",
    )
