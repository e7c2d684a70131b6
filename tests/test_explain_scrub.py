"""What must not leave the process does not, and what an explanation needs stays as it is."""

from __future__ import annotations

import base64
import json
import random
import string
import time
from pathlib import Path
from urllib.parse import quote

import pytest
from openai_server import OpenAIServer, says

from numdebug.explain.scrub import Person, Scrubber
from numdebug.explain.server import ask
from numdebug.explain.settings import Server

CASES = Path(__file__).parent / "cases"
LETTERS, HEX = string.ascii_letters + string.digits, "0123456789abcdef"
NOBODY = Scrubber()


def made(length: int, of: str = LETTERS) -> str:
    """A secret that nobody has; made here, so that no scanner finds one in this file. Holds letters of both cases and digits if it can."""
    dice = random.Random(f"{length} {of}")
    while True:
        text = "".join(dice.choices(of, k=length))
        kinds = [str.isdigit, str.islower, str.isupper]
        if all(any(map(kind, text)) == any(map(kind, of)) for kind in kinds):
            return text


def pem(kind: str) -> str:
    body = "\n".join(made(64, LETTERS + "+/") for _ in range(3))
    return f"-----BEGIN {kind}-----\n{body}\n{made(20)}==\n-----END {kind}-----"


S = made(40, LETTERS + "+/")
# what it is: a line in which it stands, and the part that must be gone
PLANTED: dict[str, tuple[str, str]] = {
    "AWS access key": (f"client('s3', key='{(k := 'AKIA' + made(16, string.ascii_uppercase + '234567'))}')", k),
    "AWS secret in Python": (f'AWS_SECRET_ACCESS_KEY = "{S}"', S),
    "AWS secret in an ini file": (f"aws_secret_access_key = {S}", S),
    "AWS session token": (f"aws_session_token: '{(k := made(120, LETTERS + '+/'))}'", k),
    "GitHub classic": (f"clone('ghp_{(k := made(36))}')", k),
    "GitHub OAuth": (f"# gho_{(k := made(36))}", k),
    "GitHub fine-grained": (f"x = 'github_pat_{(k := made(22) + '_' + made(59))}'", k),
    "GitLab": (f"glpat-{(k := made(20))}", k),
    "Slack bot": (f"xoxb-{(k := made(12, '0123456789') + '-' + made(24))}", k),
    "Slack webhook": (f"post('https://hooks.slack.com/services/T{made(8)}/B{made(8)}/{(k := made(24))}')", k),
    "Discord webhook": (f"https://discord.com/api/webhooks/{made(18, '0123456789')}/{(k := made(60))}", k),
    "OpenAI": (f"openai.api_key = 'sk-{(k := made(48))}'", k),
    "OpenAI of a project": (f"sk-proj-{(k := made(80, LETTERS + '_-'))}", k),
    "Anthropic": (f"sk-ant-api03-{(k := made(90, LETTERS + '_-'))}AA", k),
    "Google": (f"AIza{(k := made(35, LETTERS + '_-'))}", k),
    "Google OAuth secret": (f"GOCSPX-{(k := made(28))}", k),
    "Hugging Face": (f"login(token='hf_{(k := made(34))}')", k),
    "Hugging Face, before a comment": (f"login('hf_{(k := made(34))}')  # mine", k),
    "wandb": (f"wandb.login(key='{(k := made(40, HEX))}')", k),
    "wandb in a shell": (f"!wandb login {(k := made(40, HEX))}", k),
    "Stripe": (f"sk_live_{(k := made(24))}", k),
    "SendGrid": (f"SG.{(k := made(22) + '.' + made(43))}", k),
    "Twilio": (f"SK{(k := made(32, HEX))}", k),
    "Twitter": (f"twitter = Client(bearer_token='AAAAAAAAAAAAAAAAAAAAA{(k := made(80, LETTERS + '%'))}')", k),
    "npm": (f"//registry.npmjs.org/:_authToken=npm_{(k := made(36))}", k),
    "PyPI": (f"pypi-AgEIcHlwaS5vcmc{(k := made(70, LETTERS + '_-'))}", k),
    "JWT": (f"eyJ{made(20)}.eyJ{(k := made(60))}.{made(43)}", k),
    "Telegram": (f"{made(10, '123456789')}:AA{(k := made(33))}", k),
    "Databricks": (f"dapi{(k := made(32, HEX))}", k),
    "Groq": (f"gsk_{(k := made(52))}", k),
    "Replicate": (f"r8_{(k := made(37))}", k),
    "NVIDIA": (f"nvapi-{(k := made(64))}", k),
    "Vault": (f"hvs.{(k := made(90))}", k),
    "Docker": (f"dckr_pat_{(k := made(27))}", k),
    "Kaggle": (f'{{"username":"somebody","key":"{(k := made(32, HEX))}"}}', k),
    "RSA private key": (pem("RSA PRIVATE KEY"), pem("RSA PRIVATE KEY").splitlines()[2]),
    "SSH private key": (pem("OPENSSH PRIVATE KEY"), pem("OPENSSH PRIVATE KEY").splitlines()[1]),
    "PGP private key": (pem("PGP PRIVATE KEY BLOCK"), pem("PGP PRIVATE KEY BLOCK").splitlines()[3]),
    "private key in a string": (json.dumps({"private_key": pem("PRIVATE KEY")}), made(64, LETTERS + "+/")),
    "private key of which the frame shows the beginning": ("\n".join(pem("PRIVATE KEY").splitlines()[:3]), made(64, LETTERS + "+/")),
    "private key of which the frame shows the middle": ("\n".join(pem("PRIVATE KEY").splitlines()[1:3]), made(64, LETTERS + "+/")),
    "SSH public key": (f"ssh-ed25519 AAAA{(k := made(64))} priya@laptop", k),
    "Azure storage": (f"DefaultEndpointsProtocol=https;AccountName=a;AccountKey={(k := made(86, LETTERS + '+/'))}==;", k),
    "Azure shared access": (f"https://a.blob.core.windows.net/c?sv=2022&sig={(k := made(43) + '%3D')}", k),
    "Azure client": (f"{made(3)}8Q~{(k := made(34))}", k),
    "URL with a password": ("pip install -i https://priya:hunter2@pypi.example.org/simple x", "hunter2"),
    "URL with a token": (f"git clone https://{(k := made(40))}@git.example.org/x.git", k),
    "database": ("create_engine('postgresql+psycopg://app:p@ss-W0rd!@db.example.org:5432/runs')", "ss-W0rd"),
    "Redis": ("redis://:s3cr3tpw@cache:6379/0", "s3cr3tpw"),
    "MongoDB": ("mongodb+srv://app:Tr0ub4dor@cluster0.example.net", "Tr0ub4dor"),
    "SQL Server": ("Server=tcp:db;User=sa;Password=hunter2!;Encrypt=yes", "hunter2!"),
    "Bearer": (f"curl -H 'Authorization: Bearer {(k := made(30))}' https://x", k),
    "Bearer in a dict": (f"headers = {{'Authorization': 'Bearer {(k := made(30))}'}}", k),
    "Basic": (f"Authorization: Basic {(k := base64.b64encode(b'priya:hunter2').decode())}", k),
    "curl -u": ("curl -s -u priya:hunter2 https://x", "hunter2"),
    "netrc": ("machine api.wandb.ai login user password hunter2", "hunter2"),
    "cookie": (f"Cookie: theme=dark; sessionid={(k := made(32))}", k),
    "cookie in a dict": (f"cookies={{'sessionid': '{(k := made(24))}'}}", k),
    "query": (f"https://api.example.org/v1?q=1&api_key={(k := made(20))}", k),
    "password in Python": ('password = "hunter2"', "hunter2"),
    "password with a type": ("db_password: str = 'hunter2'", "hunter2"),
    "password in a call": ("connect(host, user='a', passwd='hunter2')", "hunter2"),
    "password in a dict": ('{"password": "hunter2"}', "hunter2"),
    "password by subscript": ("config['password'] = 'hunter2'", "hunter2"),
    "password that is compared with": ('if password == "hunter2":', "hunter2"),
    "password in YAML": ("  password: hunter2", "hunter2"),
    "password in an env file": ("DB_PASSWORD=hunter2", "hunter2"),
    "password that is exported": ("export MYSQL_PWD=hunter2", "hunter2"),
    "password in a flag": ("mysql --password=hunter2 -h db", "hunter2"),
    "password in a list of arguments": ('subprocess.run(["mysql", "--password", "hunter2"])', "hunter2"),
    "default of an environment variable": ("os.environ.get('DB_PASSWORD', 'hunter2')", "hunter2"),
    "environment variable that is set": (f"os.environ.setdefault('WANDB_API_KEY', '{(k := made(24))}')", k),
    "environment variable by subscript": (f"os.environ['MY_API_KEY'] = '{(k := made(12))}'", k),
    "in a message": (f"AuthError: invalid api_key={(k := made(14))} given", k),
    "token in a message": (f"GET /x failed with token={(k := made(28))}", k),
    "on the next line": ("password = (\n    'hunter2'\n)", "hunter2"),
    "camel case": ('{"clientSecret": "hunter2"}', "hunter2"),
    "escaped quotes": (r"{\"api_key\": \"hunter2abc\"}", "hunter2abc"),
    "random string": (f'x = "{(k := made(44, LETTERS + "+/"))}"', k),
    "random hex": (f"x = '{(k := made(64, HEX))}'", k),
    "e-mail": ("# ask priya.sharma@example.com about this", "priya"),
    "private address": ("dist.init_process_group(init_method='tcp://10.3.0.17:29500')", "10.3.0.17"),
    "home in a home": ("/home/priya/home/runs", "priya"),
    "another private address": ("MASTER_ADDR is 192.168.17.4", "192.168"),
    "public address in a URL": ("requests.get('http://93.184.216.34:8080/x')", "93.184"),
    "MAC": ("eth0 02:42:ac:11:00:02", "ac:11"),
    "home on Linux": ('File "/home/priya/train.py", line 3', "priya"),
    "home on a Mac": ("torch.load('/Users/priya/w.pt')", "priya"),
    "home on Windows": (r"np.load(r'C:\Users\Priya Sharma\x.npy')", "Priya"),
    "home on Windows, escaped": (r"np.load('C:\\Users\\priya\\x.npy')", "priya"),
    "home on Windows in WSL": ("/mnt/c/Users/priya/x.npy", "priya"),
    "home on another file system": ("/nfs/home/priya/runs", "priya"),
    "somebody's home": ("load('~priya/w.npy')", "priya"),
    "scp": ("# scp priya@cluster:/data/x .", "priya"),
}


@pytest.mark.parametrize("what", PLANTED)
def test_a_secret_is_removed(what):
    line, hidden = PLANTED[what]
    around = f"import torch\nloss = torch.log(p)  # line 12\n{line}\nloss.backward()\n"
    scrubber = Scrubber()
    text = scrubber.scrub(around)
    assert hidden not in text
    assert text.startswith("import torch\nloss = torch.log(p)  # line 12\n")
    assert text.endswith("\nloss.backward()\n")
    assert scrubber.scrub(text) == text, "scrubbing twice changes more"
    assert sum(scrubber.counts.values()) >= 1
    for depth in range(1, 3):  # as in the result of a tool, and in a report within it
        around = json.dumps({"a": around})
        assert hidden not in scrubber.scrub(around), depth


def test_the_planted_secrets_are_of_many_kinds():
    scrubber = Scrubber()
    for line, _ in PLANTED.values():
        scrubber.scrub(line)
    assert len(scrubber.counts) >= 35
    assert len(PLANTED) >= 80


def test_equal_secrets_are_counted_once():
    scrubber = Scrubber()
    scrubber.scrub("a@example.com b@example.com")
    scrubber.scrub("a@example.com")
    assert scrubber.counts == {"email": 2}


PROGRAMS = sorted(p for p in CASES.rglob("*.py"))
USERS = ["root", "user", "torch", "mean", "test", "model", "loss", "data", "x", "norm", "runner", "ubuntu", "jovyan"]


def test_programs_stay_as_they_are():
    assert len(PROGRAMS) > 100
    for user in USERS:
        scrubber = Scrubber((), Person(f"/home/{user}", user, (user, "localhost")))
        for program in PROGRAMS[:: 1 if user == "root" else 7]:
            text = program.read_text()
            assert scrubber.scrub(text) == text, program


KEPT = [
    "token = tokenizer.decode(ids)  # token: 50256",
    'pad_token="<pad>", sep_token = "[SEP]", unk_token: str = "<unk>"',
    "key, subkey = jax.random.split(key); key = jax.random.PRNGKey(0)",
    'batch["key_padding_mask"] = mask; state["optimizer_state_dict_exp_avg_sq"] = 1',
    'state_dict["encoder.layers.11.self_attn.out_proj.weight"]',
    'x = a@b.T + q@k.mT - h@self.weight + u@v.co + x@w.to(device) + A@B.at[0].set(1)',
    "def connect(user: str, password: str, secret: Optional[bytes] = None, api_key: Key = field()) -> None:",
    "password: str",
    "self.password = password",
    "connect(password=password, api_key=os.environ['X'], token=args.token, secret=get(name))",
    'parser.add_argument("--password", "-p", type=str, help="the password")',
    'api_key = os.environ["OPENAI_API_KEY"]',
    'api_key = os.getenv("API_KEY", None)',
    'url = f"postgres://{user}:{password}@{host}/db"',
    'headers = {"Authorization": f"Bearer {token}", "X-Api-Key": key}',
    'password = getpass.getpass("password: "), "next"',
    'KEYS = ["api_key", "secret", "password", "client_secret"]; get("password", default)',
    "model(secret=secret2, api_key=self.key1.value, token=tokenizer_v2_uncased, key=layer12.weight)",
    "PAD_TOKEN=0 MASK_TOKEN=103 SORT_KEY=loss",
    'CHARS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"',
    'name = "resnet50_imagenet_224x224_pretrained_v2_final"',
    'path = "checkpoints/resnet50/imagenet/run_2024_01_31/last_0042"',
    'assert sha256 == "' + made(64, HEX) + '"',
    'load_dataset("x", revision="' + made(40, HEX) + '")',
    f"index {made(40, HEX)}..{made(40, HEX)} 100644",
    "numpy==2.4.6 nvidia-curand-cu12==10.3.2.106 cudnn 9.1.0.70 version 10.2.1",
    "loss = 3.4028234663852886e+38, eps=1e-8, lr=0.0003, 65504.0, 1.1754943508222875e-38, -inf, nan",
    "model.py:12:5 in forward, encoder.layers.3.attn, torch.float16[32, 10]",
    "id = 123e4567-e89b-12d3-a456-426614174000",
    "def f(authorization: Optional[str] = None, *, x_api_key: Annotated[str, Header()]): ...",
    '"Client": (".resources.client_secrets", "ClientSecrets"), "api_key": ("package.api_key", "APIKey")',
    made(75, HEX),
    'log("kRuntimeLoggingEverySampleRate=100")',
    'model="gpt-4o-mini-search-preview-2025-03-11"',
    "@torch.no_grad()\n@jax.jit",
    "scan#17 line 4 of step 1200; x@y",
    "y = ~mask/total; z = ~a/b",
    "git clone git@github.com:org/repo.git",
    "sk-estimator-doc-link-fitted sk-toggleable__content",
    "export CUDA_VISIBLE_DEVICES=0,1; PWD=/tmp/x",
    "127.0.0.1:8000 http://localhost:8080/v1",
    "/usr/lib/python3.11/site-packages/torch/nn/modules/linear.py",
]  # fmt: skip


@pytest.mark.parametrize("line", KEPT)
def test_what_only_looks_like_a_secret_stays(line):
    assert NOBODY.scrub(line) == line


def here(**environ: str) -> Scrubber:
    return Scrubber.here(environ.pop("key", ""), {"HOME": "/home/priya", "USER": "priya", "HOSTNAME": "gpu-box-3", **environ})


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("/home/priya/proj/train.py:12", "~/proj/train.py:12"),
        ("'/home/priya'", "'~'"),
        ("/home/priyanka/x", "/home/<user>/x"),
        ("/scratch/priya/run", "/scratch/<user>/run"),
        ("priya@gpu-box-3:~$ python train.py", "<user>@<host>:~$ python train.py"),
        ("~priya/x", "~<user>/x"),
        ("# priya: why is this nan?", "# <user>: why is this nan?"),
        ("priya = 3; priya.mean(); model.priya", "priya = 3; priya.mean(); model.priya"),
        ("on GPU-BOX-3, rank 0", "on <host>, rank 0"),
        ("priyanka", "priyanka"),
    ],
)
def test_user_home_and_machine_have_no_name(before, after):
    assert here().scrub(before) == after


@pytest.mark.parametrize("user", USERS)
def test_a_user_name_that_is_a_word_is_removed_only_from_places(user):
    scrubber = here(HOME=f"/home/{user}", USER=user, HOSTNAME="gpu-box-3")
    code = f"{user} = torch.{user}(model.{user}, x['{user}'])  # the {user} of it"
    assert scrubber.scrub(code) == code
    places = f"/home/{user}/a.py /scratch/{user}/b {user}@gpu-box-3:~$ ~{user}/c"
    assert scrubber.scrub(places) == "~/a.py /scratch/<user>/b <user>@<host>:~$ ~<user>/c"


def test_root_has_a_home_of_its_own():
    assert here(HOME="/root", USER="root").scrub("/root/a.py /roots/b x/root/c root") == "~/a.py /roots/b x/root/c root"


def test_values_of_secret_variables_are_removed_in_every_spelling():
    value = 'v3ry "s3cret" value/+é'
    scrubber = here(MY_SERVICE_TOKEN=value, PATH="/usr/bin", LANG="en_US.UTF-8", KEYMAP="de-latin1-nodeadkeys")
    forms = [value, repr(value), json.dumps(value), quote(value), quote(value, safe=""), base64.b64encode(value.encode()).decode()]
    for form in forms:
        assert "s3cret" not in scrubber.scrub(f"KeyError: {form}")
        assert base64.b64encode(value.encode()).decode()[:20] not in scrubber.scrub(form)
    assert scrubber.scrub("/usr/bin en_US.UTF-8 de-latin1-nodeadkeys") == "/usr/bin en_US.UTF-8 de-latin1-nodeadkeys"


def test_weak_values_of_secret_variables_do_not_damage_the_text():
    scrubber = here(DB_PASSWORD="training", API_KEY="123456789", SSH_AUTH_SOCK="/tmp/ssh-1/agent", WEBHOOK_SECRET="none", KEY="x")
    text = "training loss 123456789 at /tmp/ssh-1/agent is none of x"
    assert scrubber.scrub(text) == text
    assert "training" not in scrubber.scrub("DB_PASSWORD='training'")


def test_the_key_is_removed_wherever_it_stands():
    key = made(32)
    scrubber = here(key=key)
    assert key not in scrubber.scrub(f"a{key}b {key} x={key}")
    assert key not in repr(scrubber)


def test_every_text_of_a_request_is_scrubbed_and_no_field_is_renamed():
    request = {"messages": [{"role": "user", "content": "mail a@example.com"}], "password": ["a@example.com", 1, None, True, 2.5]}
    clean = NOBODY.every(request)
    assert clean == {"messages": [{"role": "user", "content": "mail <email>"}], "password": ["<email>", 1, None, True, 2.5]}
    assert request["password"][0] == "a@example.com", "the caller's own messages stay as they are"


STRANGE = [
    "a",
    "A1b",
    "-----BEGIN PRIVATE KEY-----",
    "password=",
    "a_",
    "x.",
    '"',
    "/home/",
    "1.1.",
    "a@",
    "\\",
    "api_key: ",
    "é",
    "://",
    "'A1b2",
    "-",
    " ",
    "\n",
]


@pytest.mark.parametrize("text", STRANGE)
def test_strange_texts_do_not_hang(text):
    """In processor time, whatever else the machine does: patterns that grow with the square of the text need minutes here."""
    begin = time.process_time()
    Scrubber((), Person("/home/priya", "priya", ("gpu-box-3",))).scrub(text * (200_000 // len(text)))
    assert time.process_time() - begin < 30


# --- Read off the wire -----------------------------------------------------------------------------------------------------------------


def test_no_planted_secret_leaves_the_process():
    everything = "\n".join(line for line, _ in PLANTED.values())
    messages = [{"role": "user", "content": everything}, {"role": "tool", "tool_call_id": "c", "content": json.dumps({"x": everything})}]
    with OpenAIServer(says("Hi.")) as server:
        ask(Server(server.url, "m"), messages)
        (sent,) = server.requests
    assert [what for what, (_, hidden) in PLANTED.items() if hidden in sent.raw] == []


PROGRAM = f"""
import numpy as np
api_key = "{made(24)}"  # ask priya.sharma@example.com
DATA = "/home/priya/data.npy"
p = np.array([1.0, 0.0])
login("hf_{made(34)}", password="hunter2")
loss = np.log(p).sum()  # {made(30)} is in PLANTED_TOKEN
db = "postgresql://app:Tr0ub4dor@10.3.0.17/runs"
print(loss, "{made(44, LETTERS + "+/")}")
raise RuntimeError("GET https://priya:{made(20)}@x.example.org failed: Bearer {made(31)}")
"""


def test_secrets_of_a_program_and_its_environment_do_not_reach_the_server(numdebug, tmp_path):
    folder = tmp_path / "home" / "priya"
    folder.mkdir(parents=True)
    (folder / "train.py").write_text(PROGRAM.replace("login(", "(lambda *a, **k: None)("))
    key = made(33)
    with OpenAIServer(says('{"claims": []}')) as server:
        env = {"PLANTED_TOKEN": made(30), "NUMDEBUG_API_KEY": key, "HOME": str(folder), "USER": "priya"}
        said = numdebug("diagnose", str(folder / "train.py"), "--explain", "--base-url", server.url, "--model", "m", **env)
        assert server.requests, said.err
        for sent in server.requests:
            assert "np.log(p).sum()" in sent.raw
            for secret in (
                made(24),
                made(34),
                made(30),
                made(20),
                made(31),
                made(44, LETTERS + "+/"),
                "hunter2",
                "Tr0ub4dor",
                "10.3.0.17",
                "priya",
            ):
                assert secret not in sent.raw
            assert sent.raw.count(key) == 1, "in its header and nowhere else"
    assert key not in said.out + said.err
