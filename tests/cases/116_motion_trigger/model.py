import torch


def synth_frame(t, h=48, w=64):
    frame = torch.full((h, w), 90, dtype=torch.uint8)
    noise = torch.randint(0, 5, (h, w), dtype=torch.uint8)
    frame += noise
    if t >= 5:
        x = 4 * t
        frame[20:30, x:x + 10] = 40
    return frame


def motion_score(prev, cur):
    diff = (cur - prev).abs()
    return (diff > 25).float().mean().item()


torch.manual_seed(0)
prev = synth_frame(0)
for t in range(1, 9):
    cur = synth_frame(t)
    score = motion_score(prev, cur)
    print(t, f"{score:.3f}", "MOTION" if score > 0.05 else "")
    prev = cur
