"""The same naive form elsewhere: a fix that leaves the second log of a cross-entropy as it was would fail one step later."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from numdebug.evidence import Evidence
from numdebug.report.model import Repair

_FORMS = {"log_softmax": "log-of-softmax", "log_sigmoid": "log-of-sigmoid", "softmax": "softmax", "logsumexp": "logsumexp", "softplus": "softplus"}


def with_siblings(repair: Repair, evidence: Sequence[Evidence]) -> Repair:
    """The repair with every further target of the same form in the same function, or on the same inner result."""
    form = _FORMS.get(repair.form)
    target = repair.sites.get("target")
    if form is None or target is None:
        return repair
    inner = "softmax" if repair.form == "log_softmax" else "sigmoid"
    known = {site.span for role, site in repair.sites.items() if role.startswith("target")}
    sites, ops, numbers = dict(repair.sites), dict(repair.ops), dict(repair.numbers)
    count = sum(1 for role in repair.sites if role.startswith("target"))
    for e in evidence:
        if e.kind != "naive-form" or e["form"] != form or e.site is None or e.site.span in known:
            continue
        same_inner = inner in e.ops and e.ops[inner] == repair.ops.get(inner)
        same_function = e.site.file == target.file and e.site.function == target.function
        if not (same_inner or same_function):
            continue
        known.add(e.site.span)
        count += 1
        mark = str(count)
        sites.update({role + mark: site for role, site in e.sites.items()})
        ops.update({role + mark: op for role, op in e.ops.items()})
        numbers.update({name + mark: value for name, value in e.facts.get("numbers", {}).items()})
        numbers["only_feeds_log"] = bool(numbers.get("only_feeds_log")) and bool(e.facts.get("only_feeds_log"))
    return replace(repair, sites=sites, ops=ops, numbers=numbers)
