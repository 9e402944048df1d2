"""Every code block of README.md and docs/ runs and prints what the page says."""

from __future__ import annotations

import sys
import traceback
from pathlib import Path

import pytest

from tests.docs.blocks import ROOT, Block, blocks, pages, run_page, run_shell, summary

PAGES = [page for page in pages() if any(block.is_python for block in blocks(page))]
SHELL = [block for page in pages() for block in blocks(page) if block.is_shell and block.reason is None]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder to work in; what a page writes lands here."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_dx_02_the_python_of_a_page_runs_and_prints_what_the_page_shows(page: Path, home: Path) -> None:
    run_page(blocks(page))


@pytest.mark.parametrize("block", SHELL, ids=lambda block: block.where)
def test_dx_02_the_commands_of_a_page_work(block: Block, home: Path) -> None:
    run_shell(block, home)


def _page(folder: Path, text: str) -> list[Block]:
    path = folder / "page.md"
    path.write_text(text.replace("'''", "```"), encoding="utf-8")
    return blocks(path)


def test_blocks_of_a_page_share_a_namespace_and_their_output_is_compared(home: Path) -> None:
    found = _page(
        home,
        """
'''python
import asyncio
x = 1
'''
'''python
async def double(n): return 2 * n
if __name__ == "__main__":
    print(asyncio.run(double(x)))
'''

<!-- output -->
'''text
2
'''

'''python
print(await double(4))
'''

<!-- output -->

'''text
8
'''
""",
    )
    assert [block.output for block in found] == [None, "2\n", "8\n"]
    run_page(found)


def test_an_output_that_differs_fails(home: Path) -> None:
    found = _page(home, "'''python\nprint(1)\n'''\n<!-- output -->\n'''text\n2\n'''\n")
    with pytest.raises(AssertionError, match=r"page.md:2 prints something else than the page shows"):
        run_page(found)


def test_a_text_block_without_the_mark_is_no_output(home: Path) -> None:
    (block,) = _page(home, "'''python\nprint(1)\n'''\n'''text\n2\n'''\n")
    assert block.output is None


def test_a_mark_with_no_block_to_belong_to_is_an_error(home: Path) -> None:
    with pytest.raises(ValueError, match="an output is a text block after the block that prints it"):
        _page(home, "<!-- output -->\n'''text\n2\n'''\n")


def test_a_block_that_raises_fails_at_the_line_of_the_page(home: Path) -> None:
    found = _page(home, "# Title\n\nText.\n\n- item\n\n  '''python\n  x = 1\n  x / 0\n  '''\n")
    with pytest.raises(ZeroDivisionError) as caught:
        run_page(found)
    last = traceback.extract_tb(caught.value.__traceback__)[-1]
    assert (Path(last.filename).name, last.lineno) == ("page.md", 9)


def test_a_block_marked_no_run_is_compiled_and_not_run(home: Path) -> None:
    found = _page(home, "<!-- no-run: needs a key -->\n'''python\n1 / 0\n'''\n'''python\nprint()\n'''\n")
    run_page(found)
    assert list(summary(found)) == [
        "documentation: 1 code blocks run, 1 not run",
        f"  {home}/page.md:3: needs a key",
    ]


def test_a_block_marked_no_run_must_compile(home: Path) -> None:
    found = _page(home, "<!-- no-run: needs a key -->\n'''python\nprint(\n'''\n")
    with pytest.raises(SyntaxError):
        run_page(found)


def test_a_comment_that_is_not_next_to_the_fence_does_not_mark_it(home: Path) -> None:
    (block,) = _page(home, "<!-- no-run: needs a key -->\nSome text.\n'''python\n1 / 0\n'''\n")
    assert block.reason is None


def test_only_make_and_zett_are_run_of_shell_blocks(home: Path) -> None:
    made, installed = _page(home, "'''bash\n# all\nmake test\n$ zett demo\n'''\n'''sh\npip install x\n'''\n")
    assert made.reason is None
    assert made.commands == [["make", "test"], ["zett", "demo"]]
    assert installed.reason == "a shell block of other commands than make and zett"


def test_a_make_target_that_does_not_exist_fails(home: Path) -> None:
    (good, bad) = _page(home, "'''bash\nmake check\n'''\n'''bash\nmake chekc\n'''\n")
    run_shell(good, home)
    with pytest.raises(AssertionError, match="make chekc failed"):
        run_shell(bad, home)


def test_the_main_module_is_put_back_after_a_page(home: Path) -> None:
    before = sys.modules["__main__"]
    with pytest.raises(NameError):
        run_page(_page(home, "'''python\nnothing_of_that_name\n'''\n"))
    assert sys.modules["__main__"] is before
