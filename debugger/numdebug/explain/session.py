"""One explanation from the command line's wishes to what is shown: which server, what is sent, what comes back, what stands in for it."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from numdebug import prompting
from numdebug.diagnosing import Request
from numdebug.errors import UserError
from numdebug.explain import asking, offline, translating
from numdebug.explain.claims import SCHEMA, Claim
from numdebug.explain.explaining import Accept, Ask, Explanation, Removed, explain, in_our_words
from numdebug.explain.grounding.patches import same
from numdebug.explain.items import Items
from numdebug.explain.scrub import Scrubber
from numdebug.explain.server import Answer, ask, body, tokens
from numdebug.explain.settings import Flags, Server, Settings, find
from numdebug.explain.trying import try_patch
from numdebug.report.model import Report

Say = Callable[[str], None]  # one line to the person, on stderr
OURS = ("en", "hi")  # languages that the explanation without a model exists in
NOBODY = Server("http://localhost", "MODEL")


@dataclass(frozen=True)
class Wish:
    """What the command line asks for."""

    flags: Flags = field(default_factory=Flags)
    language: str | None = None
    prompt: prompting.Prompt | None = None
    with_source: bool = True
    dry_run: bool = False
    question: str = ""
    rounds: int = 0  # of probes that a model may ask for
    commands: Mapping[str, set[str]] = field(default_factory=dict)  # numdebug's own, with their options


class Session:
    """A report, the program behind it (where it may be run), and the server to ask."""

    def __init__(
        self,
        report: Report,
        source: Callable[[str], str | None],
        wish: Wish,
        say: Say,
        request: Request | None = None,
        settings: Settings | None = None,
    ) -> None:
        self.report, self.source, self.wish, self.say, self.request = report, source, wish, say, request
        self.settings = settings or find(wish.flags)
        self.language = spoken_in(wish, self.settings)
        self.scrubber = Scrubber.here(self.settings.server.key if self.settings.server else "")
        self.items = Items(report, wish.with_source, wish.commands)
        self.prober = asking.Prober(report, request, wish.rounds, say, self.scrubber)
        for note in self.settings.notes:
            say(note)

    @property
    def wanted(self) -> bool:
        """Whether a model was asked for by name or address, so that its absence is worth a word."""
        flags = self.wish.flags
        return bool(flags.base_url or flags.model or flags.key or self.wish.question) or "set up" not in self.settings.missing

    # -- what is sent ------------------------------------------------------------------------------------------

    def messages(self) -> list[dict[str, Any]]:
        """The conversation as it begins."""
        return prompting.messages(self.items, self.wish.prompt, self.wish.question, bool(self.prober.tools()))

    def dry_run(self) -> str:
        """The exact first request as JSON, and on stderr where it would go and how long it is."""
        server = self.settings.server
        request = body(server or NOBODY, self.messages(), SCHEMA, self.prober.tools() or None, self.scrubber)
        where = f"to {server.base_url}" if server else f"nowhere: {self.settings.missing}"
        self.say(f"about {tokens(request)} tokens, {where.rstrip('.')}; nothing was sent")
        return json.dumps(request, indent=2, ensure_ascii=False) + "\n"

    # -- what comes back ---------------------------------------------------------------------------------------

    def run(self, show: Callable[[Claim], None], show_own: Callable[[Claim], None] | None = None) -> Explanation:
        """The explanation; `show` gets each of the model's claims as soon as it may be shown, `show_own` what numdebug says itself."""
        own = offline.explain(self.items, self.language if self.language in OURS else "en")
        server = self.settings.server
        if server is None:
            if self.language not in OURS:
                self.say(f"without a model the explanation exists in {' and '.join(OURS)} only")
            if self.wish.prompt is not None:
                self.messages()  # a template with a mistake is told also where nobody is asked
            done = Explanation(problem=self.settings.missing)
        else:
            done = self._asked(server, show)
        done.own = in_our_words(done, own, self.items)
        for claim in done.own:
            (show_own or show)(claim)
        return done

    def _asked(self, server: Server, show: Callable[[Claim], None]) -> Explanation:
        messages = self.messages()
        size = tokens(body(server, messages, SCHEMA, self.prober.tools() or None, self.scrubber))
        code = sum(len(x.text.split("\n")) for x in self.report.excerpts) if self.wish.with_source else 0
        lines = f" with {code} lines of code" if code else " without code"
        where = f"{server.model} at {server.host}"
        self.say(f"sends the report{lines} (about {size} tokens) to {where}; --dry-run shows it, --no-source leaves code out")
        english = self.language == "en"
        asker = self.asker(server, SCHEMA)
        if self.prober.tools():
            messages = self.prober.answered(messages, server)
            self.items = Items(self.report, self.wish.with_source, self.wish.commands)
        done = explain(self.items, messages, asker, self.source, show if english else _later, self.accept())
        done.model = f"{server.model} at {server.host}"
        if not english:
            done.claims, stayed = translating.translated(done.claims, self.language, self.asker(server, translating.SCHEMA), self.items)
            done.problem = done.problem or stayed
            for claim in done.claims:
                show(claim)
        return done

    def asker(self, server: Server, schema: dict[str, Any]) -> Ask:
        """What asks the server."""

        def asked(messages: list[dict[str, Any]], heard: Callable[[str], None]) -> Answer:
            return ask(server, messages, schema, None, heard, self.scrubber)

        return asked

    def accept(self) -> Accept:
        """A patch is shown if it is the report's own, or if the program was run with it and the finding is gone."""

        def accepted(claim: Claim) -> Claim | Removed:
            if claim.patch is None:
                return claim
            found = [d for name in claim.subjects if (d := self.items.diagnosis(name)) is not None]
            if any(d.fix is not None and d.fix.diff and same(d.fix.diff, claim.patch) for d in found):
                return claim
            if self.request is None or self.request.rerun is False:
                return Removed(claim.text, ("its patch was not tried",))
            self.say("running the program once more with a change that the model suggests")
            exact, why = try_patch(claim.patch, found[0], self.report, self.request, self.source)
            return replace(claim, patch=exact) if exact is not None else Removed(claim.text, (why,))

        return accepted


def spoken_in(wish: Wish, settings: Settings) -> str:
    """The language of the explanation: the option, the environment, the user's file. Raises UserError for one that is not known."""
    code = wish.language or os.environ.get("NUMDEBUG_LANGUAGE") or settings.language or "en"
    if code not in OURS and code not in translating.NAMES:
        raise UserError(f"there is no language {code!r} here; known are en, {', '.join(sorted(translating.NAMES))}.")
    return code


def _later(claim: Claim) -> None:
    """Shown when it was translated."""
