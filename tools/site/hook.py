"""What mkdocs calls while it builds the site: add the generated pages, put all of them in order, mend links.

It promises that nothing is written into docs/: generated pages exist only in the build.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from tools.site import behaviour, commands, examples, names, order, tutorial

ROOT = Path(__file__).parents[2]
#: A link to a program of examples/, as it works on GitHub; the site has a page for each of them.
_EXAMPLE = re.compile(r"\]\((?:\.\./)+(examples/\w+)\.py\)")


def on_files(files: Files, *, config: MkDocsConfig, **_: Any) -> Files:
    """Add the generated pages, and set the navigation."""
    for make in (tutorial.pages, commands.pages, names.pages, examples.pages, behaviour.pages):
        for path, text in make(ROOT):
            files.append(File.generated(config, path, content=text))
    config.nav = order.nav_of(file.src_uri for file in files.documentation_pages())
    return files


def on_page_markdown(markdown: str, *, page: Page, **_: Any) -> str:
    """Lead links to programs to their pages."""
    up = "../" * page.file.src_uri.count("/")
    return _EXAMPLE.sub(lambda found: f"]({up}{found[1]}.md)", markdown)
