import torch
import torch.nn as nn


def softmax(x, dim=-1):
    x_exp = torch.exp(x - x.amax(dim, keepdim=True))
    partition = x_exp.sum(dim, keepdim=True)
    return x_exp / partition


class TokenRouter(nn.Module):
    def __init__(self, d_model=32, slots=8):
        super().__init__()
        self.norm = nn.LayerNorm(d_model)
        self.w = nn.Linear(d_model, slots, bias=False)

    def forward(self, h):
        return softmax(self.w(self.norm(h)))


@torch.no_grad()
def main():
    torch.manual_seed(5)
    router = TokenRouter()
    router.w.weight.mul_(16.0)
    router = router.half().eval()
    tokens = torch.randn(20, 32).half()
    route = router(tokens)
    load = route.sum(dim=0)
    print("tokens per slot:", [round(v, 2) for v in load.tolist()])
    print("chosen:", route.argmax(-1).tolist())


if __name__ == "__main__":
    main()
