import torch
from torch import nn


def iou(a, b):
    tl = torch.maximum(a[:, None, :2], b[None, :, :2])
    br = torch.minimum(a[:, None, 2:], b[None, :, 2:])
    inter = (br - tl).clamp(min=0).prod(dim=2)
    area = lambda t: (t[:, 2] - t[:, 0]) * (t[:, 3] - t[:, 1])
    return inter / (area(a)[:, None] + area(b) - inter)


def nms(boxes, scores, limit=0.5):
    order, keep = scores.argsort(descending=True), []
    while order.numel():
        i = order[0]
        keep.append(int(i))
        order = order[1:][iou(boxes[i][None], boxes[order[1:]])[0] < limit]
    return keep


class Head(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 16, 3, stride=2, padding=1)
        self.bn = nn.BatchNorm2d(16)
        self.pred = nn.Conv2d(16, 5, 1)

    def forward(self, img):
        out = self.pred(torch.relu(self.bn(self.conv(img)))).flatten(2).mT[0]
        centre = out[:, :2].sigmoid() * 64
        size = out[:, 2:4].clamp(-4, 4).exp() * 8
        return torch.cat([centre - size / 2, centre + size / 2], 1), out[:, 4].sigmoid()


torch.manual_seed(0)
model = Head().eval()
image = torch.randint(0, 256, (1, 3, 32, 32), dtype=torch.uint8)
with torch.inference_mode():
    boxes, scores = model(image.to(torch.float32) / 255)
    keep = nms(boxes, scores)
print(len(boxes), "boxes,", len(keep), "kept; best", boxes[keep[0]].tolist())
