"""The documentation site: the pages that are generated, their order, and the hook that hands both to mkdocs."""
