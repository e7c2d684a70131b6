import torch


class MacroF1:
    def __init__(self, classes):
        self.matrix = torch.zeros(classes, classes)

    def update(self, pred, truth):
        for p, t in zip(pred.tolist(), truth.tolist()):
            self.matrix[t, p] += 1

    def compute(self):
        tp = self.matrix.diagonal()
        precision = tp / self.matrix.sum(dim=0)
        recall = tp / self.matrix.sum(dim=1)
        f1 = 2 * precision * recall / (precision + recall)
        return f1.mean()


torch.manual_seed(4)
names = ["discharge", "ward", "surgery", "intensive"]
truth = torch.multinomial(torch.tensor([0.6, 0.3, 0.08, 0.02]), 150, replacement=True)
score = torch.randn(150, 4) + 2.5 * torch.nn.functional.one_hot(truth, 4)
score[:, 3] -= 9.0

metric = MacroF1(len(names))
for s, t in zip(score.split(30), truth.split(30)):
    metric.update(s.argmax(1), t)
print("macro F1", metric.compute().item())
