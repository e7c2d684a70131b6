"""Training programs that use PyTorch in many ways; each leaves what a user would compare in `result`, and seeds itself."""

# ruff: noqa: E501  (a line of a program a line)

HEAD = """\
import sys
import torch
import torch.nn.functional as F
from torch import nn
torch.manual_seed(0)
result = []
"""
LOOP = """
for step in range(3):
    loss = step_loss(step)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    result.append(loss.detach().clone())
result += [p.detach().clone() for p in model.state_dict().values()]
"""

_BODIES = {
    "mlp": """
model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Dropout(0.3), nn.Linear(16, 4))
optimizer = torch.optim.Adam(model.parameters(), 1e-2)
x, y = torch.randn(32, 8), torch.randint(0, 4, (32,))
def step_loss(step):
    return F.cross_entropy(model(x), y)
""",
    "lstm": """
model = nn.LSTM(6, 8, num_layers=2, dropout=0.2, batch_first=True, bidirectional=True)
optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
x = torch.randn(4, 7, 6)
def step_loss(step):
    packed = nn.utils.rnn.pack_padded_sequence(x, torch.tensor([7, 5, 3, 2]), batch_first=True)
    out, (h, c) = model(packed)
    return out.data.square().mean() + h.sum() * 0.01 + model(x)[0].tanh().mean()
""",
    "cnn": """
model = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(inplace=True), nn.MaxPool2d(2), nn.Conv2d(8, 8, 3), nn.GroupNorm(2, 8),
                      nn.SiLU(inplace=True), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(0.1), nn.Linear(8, 5))
optimizer = torch.optim.AdamW(model.parameters(), 1e-2)
x, y = torch.randn(6, 3, 10, 10).to(memory_format=torch.channels_last), torch.randint(0, 5, (6,))
def step_loss(step):
    return F.cross_entropy(model(x), y, label_smoothing=0.1)
""",
    "transformer": """
class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.layer = nn.Embedding(11, 16), nn.TransformerEncoderLayer(16, 2, 32, batch_first=True, norm_first=True)
        self.attention, self.head = nn.MultiheadAttention(16, 4, batch_first=True), nn.Linear(16, 11, bias=False)
        self.head.weight = self.embed.weight
    def forward(self, x):
        h = self.layer(self.embed(x), src_mask=nn.Transformer.generate_square_subsequent_mask(x.shape[1]), is_causal=True)
        h = h + self.attention(h, h, h, need_weights=False)[0]
        q = h.unflatten(-1, (2, 8)).transpose(1, 2)
        h = h + F.scaled_dot_product_attention(q, q, q, is_causal=True, dropout_p=0.1).transpose(1, 2).flatten(2)
        return self.head(F.layer_norm(h, (16,)))
model = Block()
optimizer = torch.optim.Adam(model.parameters(), 1e-3, foreach=True)
schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 10)
x = torch.randint(0, 11, (3, 9))
def step_loss(step):
    loss = F.cross_entropy(model(x[:, :-1]).flatten(0, 1), x[:, 1:].flatten())
    if step:
        nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        schedule.step()
    return loss
""",
    "scaler": """
model = nn.Sequential(nn.Linear(8, 32), nn.GELU(), nn.Linear(32, 4))
optimizer = torch.optim.Adam(model.parameters(), 1e-3)
scaler = torch.amp.GradScaler("cpu", init_scale=2.0**13, growth_interval=2)
x, y = torch.randn(16, 8) * 30, torch.randn(16, 4)
for step in range(6):
    with torch.autocast("cpu", dtype=torch.float16):
        out = model(x)
        loss = F.mse_loss(out.float(), y)
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
    result += [loss.detach().clone(), torch.tensor(scaler.get_scale())]
result += [p.detach().clone() for p in model.parameters()]
""",
    "autocast": """
model = nn.Sequential(nn.Conv1d(4, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(48, 8), nn.LayerNorm(8), nn.Linear(8, 3))
optimizer = torch.optim.SGD(model.parameters(), 0.05)
x, y = torch.randn(5, 4, 8), torch.randint(0, 3, (5,))
def step_loss(step):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        return F.cross_entropy(model(x), y)
""",
    "checkpoint": """
from torch.utils.checkpoint import checkpoint, checkpoint_sequential
model = nn.ModuleList([nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Dropout(0.2)) for _ in range(4)])
optimizer = torch.optim.SGD(model.parameters(), 0.1)
x = torch.randn(5, 8, requires_grad=True)
def step_loss(step):
    h = x
    for number, layer in enumerate(model):
        h = checkpoint(layer, h, use_reentrant=bool(number % 2))
    return h.square().mean()
""",
    "transforms": """
model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), 0.1)
x, y = torch.randn(6, 4), torch.randn(6, 1)
def one(params, a, b):
    return F.mse_loss(torch.func.functional_call(model, params, (a,)), b)
for step in range(3):
    params = {k: p.detach() for k, p in model.named_parameters()}
    each = torch.func.vmap(torch.func.grad(one), in_dims=(None, 0, 0))(params, x, y)
    jacobian = torch.func.jacrev(lambda a: model(a).sum(0))(x)
    tangent = torch.func.jvp(lambda a: model(a).sin(), (x,), (torch.ones_like(x),))
    hessian = torch.func.hessian(lambda a: model(a).sum())(x[0])
    for k, p in model.named_parameters():
        p.grad = each[k].mean(0)
    optimizer.step()
    result += [jacobian.detach(), *[t.detach() for t in tangent], hessian.detach(), *[e.detach() for e in each.values()]]
    loss = one(dict(model.named_parameters()), x, y)
    loss.backward()
    result.append(loss.detach())
""",
    "function": """
class Scaled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a, factor):
        ctx.save_for_backward(a)
        ctx.factor = factor
        out = (a * factor).exp()
        return out, a.sum()
    @staticmethod
    def backward(ctx, g, s):
        (a,) = ctx.saved_tensors
        return g * ctx.factor * (a * ctx.factor).exp() + s, None
class Straight(torch.autograd.Function):
    @staticmethod
    def forward(a):
        return a.round()
    @staticmethod
    def setup_context(ctx, inputs, output):
        pass
    @staticmethod
    def backward(ctx, g):
        return g
class InPlace(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a):
        a.mul_(2)
        ctx.mark_dirty(a)
        return a
    @staticmethod
    def backward(ctx, g):
        return g * 2
model = nn.Linear(6, 6)
optimizer = torch.optim.Adam(model.parameters(), 1e-2)
x = torch.randn(4, 6)
def step_loss(step):
    out, total = Scaled.apply(model(x), 0.5)
    return out.mean() + 0.1 * total + Straight.apply(model(x) * 3).mean() + InPlace.apply(model(x).sin()).sum()
""",
    "lbfgs": """
model = nn.Linear(5, 1)
optimizer = torch.optim.LBFGS(model.parameters(), max_iter=5, line_search_fn="strong_wolfe")
x, y = torch.randn(20, 5), torch.randn(20, 1)
def closure():
    optimizer.zero_grad()
    loss = F.mse_loss(model(x), y)
    loss.backward()
    return loss
for step in range(3):
    result.append(optimizer.step(closure).detach().clone())
result += [p.detach().clone() for p in model.parameters()]
""",
    "in place": """
model = nn.Linear(6, 6)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
x = torch.randn(4, 6)
buffer = torch.zeros(4, 6)
def step_loss(step):
    h = model(x)
    h += 1
    h.mul_(0.5).clamp_(-1, 2)
    view = h.view(2, 12)
    view[0] *= 3
    column = h[:, 1]
    column.add_(1)
    h[h > 1.5] = 1.5
    a, b = h.split(3, dim=1)
    out = torch.cat([a.t(), b.t()]).index_add(0, torch.tensor([0, 1]), torch.ones(2, 4))
    buffer.copy_(h.detach())
    buffer.resize_(2, 12).zero_()
    buffer.resize_(4, 6)
    alias = buffer.numpy()
    alias += step
    torch.add(h.detach(), 1, out=buffer)
    scattered = torch.zeros(4, 6).scatter_(1, torch.tensor([[0, 1], [1, 2], [2, 3], [3, 4]]), h[:, :2])
    return out.square().mean() + (h * buffer).mean() + scattered.sum() + h.expand(3, 4, 6).as_strided((2, 2), (1, 3)).sum()
""",
    "workers": """
from torch.utils.data import DataLoader, Dataset
class Rows(Dataset):
    def __len__(self):
        return 24
    def __getitem__(self, i):
        return torch.full((4,), float(i)) + torch.rand(4), torch.tensor(float(i % 3))
model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Dropout(0.1), nn.Linear(8, 1))
optimizer = torch.optim.Adam(model.parameters(), 1e-2)
for epoch in range(2):
    for x, y in DataLoader(Rows(), batch_size=6, shuffle=True, num_workers=2, multiprocessing_context="fork"):
        loss = F.mse_loss(model(x).squeeze(1), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        result += [x.clone(), loss.detach().clone()]
result += [p.detach().clone() for p in model.parameters()]
""",
    "penalty": """
model = nn.Sequential(nn.Linear(5, 16), nn.Softplus(), nn.Linear(16, 1))
optimizer = torch.optim.RMSprop(model.parameters(), 1e-3)
calls = []
model[0].register_full_backward_hook(lambda m, i, o: calls.append(o[0].norm().detach()))
model[1].register_forward_hook(lambda m, i, o: o * 1.5)
model[2].weight.register_hook(lambda g: g.clamp(-1, 1))
def step_loss(step):
    x = torch.randn(7, 5, requires_grad=True)
    out = model(x).sum()
    (g,) = torch.autograd.grad(out, x, create_graph=True)
    return (g.norm(dim=1) - 1).square().mean() + out * 0.01
""",
    "parametrized": """
import copy
from torch.nn.utils import parametrizations
model = nn.Sequential(parametrizations.weight_norm(nn.Linear(6, 6)), nn.Tanh(), parametrizations.spectral_norm(nn.Linear(6, 6)), nn.BatchNorm1d(6, momentum=0.5))
average = torch.optim.swa_utils.AveragedModel(model)
optimizer = torch.optim.NAdam(model.parameters(), 1e-2)
x = torch.randn(8, 6)
def step_loss(step):
    model.eval()
    with torch.inference_mode():
        result.append(model(x).clone().detach())
    with torch.no_grad():
        result.append(copy.deepcopy(model)(x))
    model.train()
    average.update_parameters(model)
    return model(x).square().mean()
""",
    "sparse": """
model = nn.EmbeddingBag(20, 4, mode="sum", sparse=True)
optimizer = torch.optim.SparseAdam(model.parameters(), 1e-2)
x = torch.randint(0, 20, (5, 3))
def step_loss(step):
    return model(x).square().mean()
""",
    "complex": """
model = nn.Linear(8, 8)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
x = torch.randn(4, 8)
def step_loss(step):
    z = torch.fft.rfft(model(x)) * torch.polar(torch.ones(5), torch.arange(5.0))
    return (z.conj() * z).real.mean() + torch.fft.irfft(z, n=8).abs().mean() + torch.view_as_real(z).std()
""",
    "accumulated": """
model = nn.Sequential(nn.Linear(8, 8), nn.ELU(), nn.Linear(8, 2))
optimizer = torch.optim.Adam([{"params": model[0].parameters(), "lr": 1e-2}, {"params": model[2].parameters()}], 1e-3, amsgrad=True)
other = torch.optim.SGD([nn.Parameter(torch.zeros(2))], 0.1)
for step in range(3):
    optimizer.zero_grad(set_to_none=False)
    for part in range(2):
        loss = model(torch.randn(4, 8)).square().mean() / 2
        loss.backward(retain_graph=True)
        result.append(loss.detach().clone())
    optimizer.step()
    other.step()
result += [p.detach().clone() for p in model.parameters()]
""",
}  # fmt: skip
PROGRAMS = {name: HEAD + body + (LOOP if "def step_loss" in body else "") for name, body in _BODIES.items()}
