"""The same numbers in every process: a set in sorted order, a hash without salt, a seed where one was missing."""

from __future__ import annotations

import ast

from numdebug.fixes import spelling
from numdebug.fixes.job import Job, form
from numdebug.fixes.source import Refused


@form("put_expression")
def write_expression(job: Job) -> None:
    """Another expression in the place of this one; `module` is imported where it is missing."""
    for role in job.each():
        site = job.repair.sites[role]
        source = job.source(site)
        node = next((n for n in source.at(site) if isinstance(n, ast.expr)), None)
        text, module = job.get("text"), job.get("module")
        if node is None or not isinstance(text, str):
            raise Refused("what stands here is not what was expected")
        if module:
            text = text.replace(f"{module}.", f"{spelling.module(job, source, module, node)}.", 1)
        job.replace(source, node, text)


@form("seed_beside")
def write_seed(job: Job) -> None:
    """One more seed, on a line after a statement."""
    for role in job.each():
        site = job.repair.sites[role]
        source = job.source(site)
        statement = next((n for n in source.at(site) if isinstance(n, ast.stmt)), None)
        if statement is None:
            raise Refused("what stands here is not what was expected")
        first, *rest = str(job.get("module")).split(".")
        root = spelling.module(job, source, first, statement, {"numpy": "np"}.get(first))
        job.after(source, statement, f"{'.'.join([root, *rest])}.{job.get('function')}({job.get('text')})")
