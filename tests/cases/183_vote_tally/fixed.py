import torch


def ballots(n, seed):
    gen = torch.Generator().manual_seed(seed)
    return torch.multinomial(torch.tensor([0.46, 0.34, 0.2]), n, replacement=True, generator=gen)


class Tally:
    def __init__(self, options):
        self.votes = torch.zeros(options, dtype=torch.int64)

    def add(self, batch):
        for choice in batch:
            self.votes[choice] += 1

    def winner(self):
        return int(self.votes.argmax())


tally = Tally(3)
for district in range(5):
    tally.add(ballots(80, district))
    print("district", district, "votes", tally.votes.tolist(), "leader", tally.winner())
