"""How secrets look: token formats, headers, URLs and assignments. A kind's name is what a reader sees in a secret's place.

The names follow those of gitleaks and detect-secrets where these know the kind; the patterns are our own. Each is written so that the
programs, numbers and names of a training script stay as they are: that costs secrets which look like words.
"""

# ruff: noqa: E501  (a pattern a line)

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise


@dataclass(frozen=True)
class Kind:
    """Group `s` of the pattern is the secret, or all of it; `really` has a second look at the match."""

    name: str
    pattern: re.Pattern[str]
    really: Callable[[re.Match[str]], bool] | None = None


def secret(match: re.Match[str]) -> str:
    """What a match says is secret."""
    return match["s"] if "s" in match.re.groupindex else match[0]


# --- What a value looks like -----------------------------------------------------------------------------------------------------------

WORDS = re.compile(r"(?:[A-Z]?[a-z]{2,}|[A-Z]{2,}|[A-Za-z])?\d{0,4}(?:[A-Z]?[a-z]{2,}\d{0,2})*")
UUID = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
HEX = re.compile(r"[0-9a-fA-F]+")
RUN = re.compile(r"[a-z]{8}")


def entropy(text: str) -> float:
    """Shannon's, in bits a character."""
    return -sum(n / len(text) * math.log2(n / len(text)) for n in Counter(text).values())


def random_looking(text: str, least: int) -> bool:
    """Whether `text` is at least `least` characters that no person would write: no words with numbers, no alphabet, no UUID."""
    if len(text) < least or UUID.fullmatch(text) or not any(c.isdigit() for c in text) or not any(c.isalpha() for c in text):
        return False
    steps = sum(ord(b) - ord(a) == 1 for a, b in pairwise(text))
    if steps > len(text) / 2:
        return False
    if HEX.fullmatch(text):
        return entropy(text) >= 2.8
    longest = max(re.split(r"[_/+=.~-]", text), key=len)
    changes = sum(a.isdigit() != b.isdigit() for a, b in pairwise(longest))
    if len(longest) < (12 if least >= 32 else 8) or (changes < 6 and _wordy(longest)):
        return False
    mixed = any(c.islower() for c in text) and any(c.isupper() for c in text)
    return entropy(text) >= (3.5 if mixed else 3.3) and (mixed or changes >= 6)


def _wordy(part: str) -> bool:
    """Whether words are in it, with numbers only at their ends."""
    return bool(RUN.search(part) or WORDS.fullmatch(part) or (part.isalpha() and re.search(r"[a-z]{4}", part)))


PLACEHOLDER = re.compile(
    r"<[^<>]*>|\$\{?\w*\}?|\{[^{}]*\}|%\(?\w*\)?s?|\*+|[xX]+|\.\.\.|[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+|None|True|False|null|true|false"
)
FILES = (".json", ".pem", ".yaml", ".yml", ".toml", ".txt", ".key", ".crt", ".env", ".ini", ".cfg", ".py")
TYPES = re.compile(r"(?:str|int|bytes|bool|float|object|dict|list|tuple|set|[A-Z][A-Za-z]*|[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+)[,)]?")


def _literal(match: re.Match[str]) -> bool:
    """A quoted value of something called password: a secret, but for placeholders, names of variables and file names."""
    value = match["s"]
    if "{" in value and re.fullmatch(r"[A-Za-z\s:/@.-]*", re.sub(r"\{[^{}]*\}", "", value)):
        return False
    if re.fullmatch(r"\.[a-z_]+|\.?[a-z_]+(?:\.[a-z_]+)+", value):
        return False
    return not PLACEHOLDER.fullmatch(value) and not value.endswith(FILES) and value[0] not in "),;:" and not value.isspace()


def _default(match: re.Match[str]) -> bool:
    """As in get("password", "..."); a list of names is none."""
    return _literal(match) and re.fullmatch(r"[A-Za-z_ -]+|-.*", match["s"]) is None


def _inline(match: re.Match[str]) -> bool:
    """As in a message: an unquoted value with letters and digits that is no name in a program."""
    value = match["s"]
    known = PLACEHOLDER.fullmatch(value) or re.fullmatch(r"[A-Za-z_]+\d{0,3}(?:\.\w+)*[.:]?", value) or value.endswith(FILES)
    return not known and any(c.isdigit() for c in value) and any(c.isalpha() for c in value)


def _token(match: re.Match[str]) -> bool:
    return random_looking(match["s"], 16)


def _bare(match: re.Match[str]) -> bool:
    """An unquoted value of something called password, which in a program would be a variable, a call or a type."""
    value = match["s"]
    if PLACEHOLDER.fullmatch(value) or TYPES.fullmatch(value) or any(c in value for c in "()[]{}") or value.endswith((",", ":", *FILES)):
        return False
    return ":" in match["sep"] or any(not (c.isalpha() or c in "._") for c in value)


def _variable(match: re.Match[str]) -> bool:
    """NAME=value as a shell writes it."""
    name, value = match["name"], match["s"]
    if PLACEHOLDER.fullmatch(value) or value.lower() == name.lower() or re.fullmatch(r"[A-Za-z_]\w*(?:\.\w+)+", value):
        return False
    if re.search(r"PASSW|PASSPHRASE|SECRET|APIKEY|API_KEY|CREDENTIAL", name):
        return True
    if name.endswith("PWD") or name == "PASS":
        return not value.startswith(("/", "~")) and not value.isdigit()
    return len(value) >= 12 and any(c.isdigit() for c in value) and any(c.isalpha() for c in value) and "/" not in value


def _odd(match: re.Match[str]) -> bool:
    return any(c.isdigit() for c in match["s"]) or len(match["s"]) >= 20


def _odd_flag(match: re.Match[str]) -> bool:
    value = match["s"]
    return not PLACEHOLDER.fullmatch(value) and (match["sep"] != " " or any(not c.isalpha() for c in value.strip(".,;:")))


def _base64(match: re.Match[str]) -> bool:
    return match["s"].endswith("=") or random_looking(match["s"], 12)


def _pairs(match: re.Match[str]) -> bool:
    return re.search(r"\w=[^\s=]", match["s"]) is not None


DIGEST = re.compile(
    r"(?i)(?:sha\d*|md5|crc|hash(?:es)?|digest|checksum|commit|revision|rev|etag|blob|uuid|guid|fingerprint|integrity)[\w\"'\]]{0,20}\s*[:=(,]{0,2}\s*[rbf]?$"
)


def _strange(match: re.Match[str]) -> bool:
    """A long random string in quotes, which is not said to be a hash of something."""
    return random_looking(match["s"].rstrip("="), 32) and not DIGEST.search(match.string[max(0, match.start() - 60) : match.start()])


def _material(match: re.Match[str]) -> bool:
    value = match["s"]
    return random_looking(value.rstrip("="), 60) and value != value.lower() and value != value.upper()


def _mixed(match: re.Match[str]) -> bool:
    value = match["s"]
    return any(c.isdigit() for c in value) and any(c.isupper() for c in value) or HEX.fullmatch(value.rpartition("-")[2]) is not None


# --- The kinds, in the order in which they are looked for --------------------------------------------------------------------------------

ESCAPED = r"(?<=\\[nrtbf])"  # a line of a text that stands as JSON in a text begins after the letters of \\n
A, Z = rf"(?:(?<![A-Za-z0-9_])|{ESCAPED})", r"(?![A-Za-z0-9_])"
STRONG = (
    r"(?:pass(?:word|wd|phrase|code)s?|(?:(?<![A-Za-z])|(?<=\\\\n))pwd|secret(?:s|[_-]?key)?|api[_-]?(?:key|secret|token)s?|access[_-]?(?:key|token)|"
    r"private[_-]?key|client[_-]?secret|auth[_-]?(?:key|token)|refresh[_-]?token|bot[_-]?token|credentials?|authorization|cookie|"
    r"connection[_-]?string|(?:encryption|signing|account|storage|master)[_-]?key)"
    r"(?:[_-](?:\d{1,3}|prod|production|live|test|dev|staging|value|default|old|new|main|primary|secondary))?"
)
GENTLE = rf"(?:token|auth|session(?:[_-]?id)?|{A}sid|csrf(?:[_-]?token)?|(?:(?<![A-Za-z])|{ESCAPED})key|signature|nonce|salt)"
GIVEN = r"\\?[\"']?\]?\s*(?::\s*[A-Za-z][\w\[\], .|]{0,40}=|={1,3}|=>|:=|:|!=)\s*\(?\s*[rbfuRBFU]{0,2}"
QUOTED = r"(?P<q>\\?[\"'])(?P<s>(?:(?!(?P=q))[^\n]){3,400})(?P=q)"
BODY = r"(?:(?:[\s\"'+,()#>|]|\\[nrt])*[A-Za-z0-9+/=]{16,})*"


def _kind(name: str, pattern: str, really: Callable[[re.Match[str]], bool] | None = None) -> Kind:
    return Kind(name, re.compile(pattern), really)


KINDS: tuple[Kind, ...] = (
    _kind("private-key", rf"(?s)-----BEGIN [A-Z0-9 ]{{0,30}}PRIVATE KEY(?: BLOCK)?-----(?:.{{0,16000}}?-----END [A-Z0-9 ]{{0,30}}PRIVATE KEY(?: BLOCK)?-----|{BODY})"),
    _kind("private-key", r"AGE-SECRET-KEY-1[A-Z0-9]{50,60}"),
    _kind("private-key", rf"(?m)(?:^|{ESCAPED})[ \t\"'+]*(?P<s>[A-Za-z0-9+/]{{60,}}={{0,2}})[\"', \t]*(?:$|(?=\\[nr]|\\?\"))", _material),
    _kind("ssh-key", r"(?:ssh-(?:rsa|ed25519|dss)|ecdsa-sha2-\S{1,30}|sk-ssh-\S{1,30})\s+(?P<s>AAAA[A-Za-z0-9+/=]{20,}(?:[ \t]+[\w.@-]+)?)"),
    _kind("slack-webhook", r"https://hooks\.slack\.com/(?:services|workflows|triggers)/(?P<s>[A-Za-z0-9/+_-]{8,})"),
    _kind("webhook", r"https://(?:(?:ptb\.|canary\.)?discord(?:app)?\.com/api/webhooks|[\w.-]{1,60}\.webhook\.office\.com)/(?P<s>[^\s\"'<>]{8,})"),
    _kind("credentials", r"(?<=://)(?P<s>[^\s/:@\"'<>{}]{0,200}:[^\s/\"'<>{}]{1,400}|(?=[^\s/:@]{0,200}\d)[^\s/:@\"'<>{}]{16,400})(?=@[\w.\[-])"),
    _kind("secret", r"(?i)[?&](?:api[_-]?key|key|(?:access_|auth_|id_)?token|sig|signature|secret|password|auth|x-amz-(?:signature|credential|security-token))=(?P<s>[^&\s\"'<>{}]{6,})"),
    _kind("aws-access-key", rf"{A}(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{{16}}{Z}"),
    _kind("github-token", rf"{A}gh[pousr]_[A-Za-z0-9]{{30,255}}"),
    _kind("github-token", rf"{A}github_pat_[A-Za-z0-9_]{{22,255}}"),
    _kind("gitlab-token", rf"{A}gl(?:pat|dt|rt|cbt|ptt|ft|soat|agent|oas|imt|ffct)-[A-Za-z0-9_.-]{{20,}}"),
    _kind("slack-token", rf"{A}(?:xox[abeoprs](?:\.xox[bp])?-[A-Za-z0-9-]{{10,}}|xapp-\d-[A-Z0-9]+-\d+-[a-z0-9]+)"),
    _kind("anthropic-key", rf"{A}sk-ant-[A-Za-z0-9_-]{{20,}}"),
    _kind("openai-key", rf"{A}(?P<s>sk-[A-Za-z0-9_-]{{20,}})", _mixed),
    _kind("google-key", rf"{A}(?:AIza[A-Za-z0-9_-]{{35}}|GOCSPX-[A-Za-z0-9_-]{{20,}}|ya29\.[A-Za-z0-9_-]{{20,}}|1//0[A-Za-z0-9_-]{{30,}})"),
    _kind("huggingface-token", rf"{A}(?:hf|api_org)_[A-Za-z0-9]{{30,}}"),
    _kind("wandb-key", r"(?i)wandb[^\n]{0,40}?\b(?P<s>[0-9a-f]{40})\b"),
    _kind("wandb-key", rf"{A}wandb_v\d+_[A-Za-z0-9_]{{20,}}"),
    _kind("stripe-key", rf"{A}(?:(?:sk|rk|pk)_(?:test|live|prod)_[A-Za-z0-9]{{10,}}|whsec_[A-Za-z0-9+/=]{{20,}})"),
    _kind("sendgrid-key", rf"{A}SG\.[A-Za-z0-9_-]{{16,}}\.[A-Za-z0-9_-]{{16,}}"),
    _kind("twilio-key", rf"{A}(?:SK|AC)[0-9a-f]{{32}}{Z}"),
    _kind("npm-token", rf"{A}npm_[A-Za-z0-9]{{30,}}"),
    _kind("pypi-token", rf"{A}pypi-[A-Za-z0-9_-]{{40,}}"),
    _kind("jwt", rf"{A}eyJ[A-Za-z0-9_-]{{8,}}\.[A-Za-z0-9_-]{{8,}}\.[A-Za-z0-9_-]*"),
    _kind("telegram-token", rf"{A}\d{{8,10}}:AA[A-Za-z0-9_-]{{32,}}"),
    _kind("mailgun-key", rf"{A}key-[0-9a-f]{{32}}{Z}"),
    _kind("mailchimp-key", rf"{A}[0-9a-f]{{32}}-us\d{{1,2}}{Z}"),
    _kind("databricks-token", rf"{A}dapi[0-9a-f]{{32}}"),
    _kind("digitalocean-token", rf"{A}do[opr]_v1_[0-9a-f]{{64}}"),
    _kind("atlassian-token", rf"{A}AT[ACB]TT3[A-Za-z0-9_=-]{{40,}}"),
    _kind("vault-token", rf"{A}hv[sbr]\.[A-Za-z0-9_-]{{20,}}"),
    _kind("docker-token", rf"{A}dckr_(?:pat|oat)_[A-Za-z0-9_-]{{20,}}"),
    _kind("grafana-token", rf"{A}gl(?:sa|c)_[A-Za-z0-9+/=_]{{30,}}"),
    _kind("shopify-token", rf"{A}shp(?:at|ca|pa|ss)_[0-9a-fA-F]{{32}}"),
    _kind("square-token", rf"{A}(?:sq0(?:atp|csp)-[A-Za-z0-9_-]{{20,}}|EAAA[A-Za-z0-9_-]{{56,}})"),
    _kind("groq-key", rf"{A}gsk_[A-Za-z0-9]{{30,}}"),
    _kind("replicate-token", rf"{A}r8_[A-Za-z0-9]{{30,}}"),
    _kind("nvidia-key", rf"{A}nvapi-[A-Za-z0-9_-]{{40,}}"),
    _kind("api-key", rf"{A}(?:xai|pplx|tvly|jina|tskey|NRAK|rubygems|lin_api|ntn|sntry[su]|lsv2_(?:pt|sk)|pscale_\w{{2,6}}|dp\.pt)[-_.](?P<s>[A-Za-z0-9_.-]{{20,}})", _odd),
    _kind("azure-key", r"(?i)(?:AccountKey|SharedAccessKey|SharedAccessSignature|SharedSecret)\s?=\s?(?P<s>[A-Za-z0-9+/=%&_.-]{16,})"),
    _kind("azure-key", rf"{A}[A-Za-z0-9_~.-]{{3}}\dQ~[A-Za-z0-9_~.-]{{31,34}}"),
    _kind("password", rf"(?i)(?:(?<=[;\"'\s])|{ESCAPED})(?:password|pwd)=(?P<s>[^;\"'\s]{3,})(?=;)"),
    _kind("authorization", rf"(?i)(?:(?<![\w\"'])|{ESCAPED})(?:proxy-)?authorization:\s*(?:(?:bearer|basic|token|digest|apikey)\s+)?(?P<s>[^\s\"',;<>{{}}()\[\]$\\]{{6,}}+)(?![\[(])"),
    _kind("token", rf"(?i){A}bearer\s+(?P<s>[A-Za-z0-9._~+/=-]{{8,}})", _odd),
    _kind("authorization", rf"{A}[Bb]asic\s+(?P<s>[A-Za-z0-9+/]{{12,}}={{0,2}})", _base64),
    _kind("cookie", rf"(?im){A}(?:set-)?cookie:[ \t]*(?P<s>[^\r\n\"'\\]{{6,}})", _pairs),
    _kind("api-key", rf"(?i){A}x-(?:api|auth|goog-api|functions)[\w-]{{0,12}}(?:key|token):\s*(?P<s>[^\s\"'<>{{}}\\]{{6,}})"),
    _kind("credentials", rf"(?i){A}curl\b[^\n]{{0,200}}?\s(?:-u|--user)[ =]?[\"']?(?P<s>[\w.@-]{{1,60}}:[^\s\"'\\]+)"),
    _kind("password", rf"{A}login\s+\S{{1,80}}\s+password\s+(?P<s>[^\s\"'\\]{{3,}})"),
    _kind("secret", rf"(?i){STRONG}{GIVEN}{QUOTED}", _literal),
    _kind("token", rf"(?i){GENTLE}{GIVEN}{QUOTED}", _token),
    _kind("secret", rf"(?i){STRONG}\\?[\"'],\s*{QUOTED}", _default),
    _kind("secret", rf"(?i){STRONG}\s?[:=]\s?(?P<s>[^\s\"'<>()\[\]{{}},;\\]{{8,}}+)(?![(\[])", _inline),
    _kind("token", rf"(?i){GENTLE}=(?P<s>[A-Za-z0-9._~+/-]{{16,}}+)(?![(\[])", _token),
    _kind("secret", rf"(?i)--?(?:[a-z0-9]{{1,20}}-){{0,3}}(?:{STRONG}|token)(?P<sep>[ =]|[\"'],\s*[\"'])(?P<s>[^\s\"'<>{{}}$(\[,-][^\s\"'<>,]{{2,}})", _odd_flag),
    _kind("secret", rf"(?im)(?:^|{ESCAPED})[ \t]*(?:-[ \t]+)?[\"']?[\w.-]{{0,40}}?{STRONG}[\"']?[ \t]*(?P<sep>[:=])[ \t]*(?P<s>[^\s\"'#<{{\[(|>&*!@`$,=%][^\s#\"'\\]{{2,}})[ \t]*(?:#.*)?(?:$|(?=\\[nr]))", _bare),
    _kind("secret", rf"{A}(?P<name>(?:[A-Z][A-Z0-9]{{0,20}}_){{0,5}}(?:PASSWORD|PASSWD|PASSPHRASE|PASS|PWD|SECRET|TOKEN|APIKEY|KEY|CREDENTIALS?|AUTH)(?:_[A-Z0-9]{{1,20}}){{0,3}})=(?P<s>[^\s\"'`;&|<>(){{}}\[\],$\\]{{3,}}+)(?![(\[])", _variable),
    _kind("secret", r"(?P<q>\\?[\"'])(?P<s>[A-Za-z0-9+/_=-]{32,})(?P=q)", _strange),
)  # fmt: skip
