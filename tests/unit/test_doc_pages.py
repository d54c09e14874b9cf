"""The reader of documentation pages notices a block that does not do what its page says."""

from pathlib import Path

import pytest

from tests.support.doc_pages import Block, Shell, blocks, state_of

PAGE = """\
<!-- starts from: model -->
# A page

<!-- file: tools/a.py -->
```python
print("from a file")
```

<!-- setup
mkdir made
-->
```sh
test -d made
```

<!-- exits 3 -->
```console
$ python3 tools/a.py
from a …
$ exit 3
```

<!-- not run here: needs a GPU -->
```sh
false
```

```yaml
false: 1
```
"""


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    """Make a reader's shell in an empty folder."""
    return Shell(folder=tmp_path, home=tmp_path, cache=tmp_path)


def test_a_page_is_followed_block_by_block(tmp_path: Path, shell: Shell) -> None:
    """Files are written, setups run, exit codes and output compared, marked blocks left out."""
    page = tmp_path / "page.md"
    page.write_text(PAGE, encoding="utf-8")
    found = list(blocks(page))
    assert state_of(page) == "model"
    assert [block.language for block in found] == ["python", "sh", "console", "sh", "yaml"]
    assert [block.is_command for block in found] == [False, True, True, True, False]
    assert found[3].not_run == "needs a GPU"
    assert [shell.follow(block) for block in found] == [""] * 5


@pytest.mark.parametrize(
    ("block", "said"),
    [
        (Block(line=7, language="sh", text="false\ntrue\n"), "line 7: exits 1, not 0"),
        (Block(line=7, language="sh", text="true\n", exits=1), "line 7: exits 0, not 1"),
        (Block(line=7, language="console", text="$ echo a\nb\n"), "does not print 'b'"),
        (Block(line=7, language="console", text="$ printf 'a\\nb\\n'\nb\na\n"), "print 'a'"),
        (Block(line=7, language="sh", text="true\n", setup="exit 2"), "its setup exits 2"),
        (Block(line=7, language="console", text="false\n"), "exits 1"),
    ],
)
def test_what_a_page_gets_wrong_is_said(shell: Shell, block: Block, said: str) -> None:
    """A command that fails, one that should have, output that is missing or in another order."""
    assert said in shell.follow(block)
